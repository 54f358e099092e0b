"""Run Java's clients and Kafka's tools against a cluster of Kafka's nodes and against one of ours.

Prints each operation as it ends, then writes the table of benchmarks/RESULTS.md and what was seen at
Kafka (tests/data/kafka). Exit code 1 when an operation works at Kafka and not at ours, 2 where the
release or a compiler is not there.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import page
from cluster.systems.kinds import SettingError
from tests.cluster.client.others.clusters import Cluster, Kafka, Kind, Ours
from tests.cluster.client.others.outcomes import Outcome, load, run, store, stored_file, worse
from tests.cluster.client.others.table import render
from tests.cluster.client.others.tool_chains import Program, UnavailableError, programs
from tests.kafka_release import VERSION

BUILD = Path("build") / "others"


def outcomes(kind: Kind, clients: list[Program]) -> list[Outcome]:
    """Run clients one after the other against a cluster of a kind."""
    found: list[Outcome] = []
    with (
        tempfile.TemporaryDirectory(prefix="kraftprobe-clients-") as place,
        Cluster(kind, Path(place)) as cluster,
    ):
        for program in clients:
            print(f"{program.client} against {type(kind).__name__}", flush=True)
            found += run(program, cluster, lambda line: print(line, flush=True))
        assert not cluster.ended(), f"nodes ended: {cluster.ended()}"
    return found


def main() -> int:
    """Build, run, write; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.client.others", description=__doc__
    )
    parser.add_argument("--version", default=VERSION, help="of Kafka, fetched before")
    parser.add_argument(
        "--stored", action="store_true", help="compare with what was seen at Kafka before"
    )
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # end nodes, too
    try:
        kafka = None if asked.stored else Kafka(asked.version)
        clients = programs(BUILD, asked.version)
    except (SettingError, UnavailableError) as problem:
        print(problem, file=sys.stderr)
        return 2
    ours = outcomes(Ours(), clients)
    file = stored_file(asked.version)
    kafkas = load(file) if kafka is None else outcomes(kafka, clients)
    store(file, kafkas)
    page.write("clients", render(kafkas, ours))
    found = worse(kafkas, ours)
    print(f"{len(ours)} operations, {len(found)} worse than at Kafka")
    for line in found:
        print(f"  {line}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
