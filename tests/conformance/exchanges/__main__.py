"""Ask a fetched release of Apache Kafka everything, and keep what it answers."""

import sys
import tempfile
from pathlib import Path

from tests.conformance.exchanges.cases import SITUATIONS
from tests.conformance.exchanges.nodes import exchange
from tests.conformance.exchanges.table import store, stored_file

[version] = sys.argv[1:]
answers = {}
for name, situation in SITUATIONS.items():
    with tempfile.TemporaryDirectory() as place:
        print(f"{name}: asking Apache Kafka {version}")
        folder = Path(place) / "n1"
        answers[name] = exchange("apache-kafka", situation, folder, {"version": version})
store(version, answers)
print(f"{sum(map(len, answers.values()))} answers in {stored_file(version)}")
