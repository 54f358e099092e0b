"""Apache Kafka's own tool reads every file of a log of data, with all of its checks."""

import re
import subprocess
from dataclasses import replace
from random import Random

import pytest

from cluster.node.log.data.data_log import DataLog
from cluster.systems.kafka.installation import home_of
from tests.cluster.node.log.data_helpers import NOW_MS, Folder, batch
from tests.kafka_release import release

pytestmark = pytest.mark.slow

COMPLAINT = re.compile(
    "[Mm]ismatch|not found|out of order|Non-consecutive|[Ee]xception|isvalid: false"
)

FIRST_OFFSET = r"Non-consecutive offsets in \S*/0*(\d+)\.log\n +-1 is followed by \1\n"


def dump(folder, *options: str) -> str:
    """Run DumpLogSegments on all files of a log."""
    files = sorted(
        p.name
        for p in folder.iterdir()
        if p.suffix in {".log", ".index", ".timeindex", ".snapshot"}
    )
    command = [
        "java",
        "-Xmx256m",
        "-cp",
        f"{home_of(release())}/libs/*",
        "org.apache.kafka.tools.DumpLogSegments",
        *options,
        "--files",
        ",".join(files),
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The tool believes that offset -1 came before each file.
    return done.stdout + re.sub(FIRST_OFFSET, "", done.stderr)


def written(folder: Folder, log: DataLog, records: int, random: Random) -> None:
    for number in range(log.end_offset // 2, log.end_offset // 2 + records):
        who = number % 3
        known = log.producers.producers.get(who)
        sequence = 0 if known is None else known.last_sequence + 1
        at = NOW_MS + random.randrange(0, 100_000)
        epoch = log.epochs.latest_epoch or 0
        sent = batch(
            b"%d" % number * 5,
            b"w" * 40,
            timestamp_ms=at,
            step_ms=3,
            producer=(who, 0, sequence),
            codec=number % 5,
        )
        log.append_as_leader(sent, epoch + (number % 150 == 149))
    folder.run()


def test_kafkas_tool_reads_every_file_with_all_of_its_checks(tmp_path):
    release()
    random = Random(3)
    folder = Folder(segment_bytes=20_000, index_interval_bytes=500, cache_bytes=300)
    log = folder.open()
    written(folder, log, 400, random)
    log.truncate_to(500)
    written(folder, log, 100, random)
    folder.close()
    written(folder, folder.open(), 100, random)
    folder.kill()
    written(folder, folder.open(), 100, random)
    folder.close()
    folder.config = replace(folder.config, message_timestamp_type="LogAppendTime")
    log = folder.open()
    written(folder, log, 200, random)
    folder.close()
    files = {
        path.rpartition("/")[2]: data
        for path, data in folder.disk.files().items()
        if path.startswith("topic-0/")
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    segments = sorted(name for name in files if name.endswith(".log"))
    assert len(segments) > 3
    checked = dump(tmp_path, "--index-sanity-check")
    assert checked.count("passed sanity check.") == 2 * len(segments)
    indexed = dump(tmp_path, "--verify-index-only")
    printed = dump(tmp_path, "--deep-iteration", "--print-data-log")
    assert printed.count("| offset: ") == log.end_offset
    assert printed.count("producerId: 2 producerEpoch: 0") >= len(segments) - 1
    assert not [
        line for line in (checked + indexed + printed).split("\n") if COMPLAINT.search(line)
    ]
    index = tmp_path / segments[1].replace(".log", ".index")
    content = index.read_bytes()
    index.write_bytes(content[:3] + bytes([content[3] + 1]) + content[4:])
    assert COMPLAINT.search(dump(tmp_path, "--verify-index-only")), "the alarm works"
