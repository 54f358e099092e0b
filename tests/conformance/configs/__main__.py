"""Take configuration keys and answers about them anew from a fetched release of Apache Kafka."""

import sys
import tempfile
from pathlib import Path

from tests.conformance.configs.definitions import DATA, described
from tests.conformance.configs.exchange import exchange, store, stored_file

[version] = sys.argv[1:]
DATA.write_text(described(version), encoding="ascii")
print(f"{DATA}: every configuration key of Apache Kafka {version}")
with tempfile.TemporaryDirectory() as place:
    answers = exchange("apache-kafka", Path(place) / "n1", {"version": version})
store(version, answers)
print(f"{stored_file(version)}: {len(answers)} answers")
