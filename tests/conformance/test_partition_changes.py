"""Our PartitionChangeBuilder writes the record that Kafka's writes, for random partitions."""

import gzip
import shutil

import pytest

from tests.conformance.partition_changes import ROWS, generate, load, table_file
from tests.kafka_release import VERSION, release


@pytest.mark.slow
def test_every_partition_changes_as_in_kafka():
    rows = list(load(VERSION))
    wrong = [(row.line, row.builder.build()) for row in rows if row.builder.build() != row.expected]
    assert (wrong[:5], len(wrong), len(rows)) == ([], 0, ROWS)


def test_where_ours_differs_kafka_keeps_a_replica_that_is_gone_eligible():
    different = [row for row in load(VERSION) if row.differs]
    assert len(different) > ROWS / 100
    for row in different:
        left = (row.expected and row.expected.replicas) or row.builder.partition.replicas
        kafkas = row.kafkas and row.kafkas.eligible_leader_replicas
        assert set(kafkas or row.builder.partition.elr) - set(left), row.line


@pytest.mark.slow
def test_the_table_is_what_the_release_answers():
    version = release()
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK (Debian: apt install default-jdk-headless)")
    assert generate(version) == gzip.decompress(table_file(version).read_bytes()).decode()
