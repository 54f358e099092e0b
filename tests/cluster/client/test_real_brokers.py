"""Brokers of Apache Kafka lose nothing on controllers of ours that are killed."""

from pathlib import Path

import pytest

from tests.cluster.client.real_brokers import produce_and_consume
from tests.kafka_release import release


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("records", "fail_overs"), [(8_000, 1), pytest.param(40_000, 4, marks=pytest.mark.nightly)]
)
def test_records_survive_fail_overs_of_our_controllers(
    tmp_path: Path, records: int, fail_overs: int
):
    found = produce_and_consume(tmp_path, release(), records=records, fail_overs=fail_overs)
    assert found.acknowledged == records
    assert (found.lost, found.repeated) == ([], 0)
    assert all(old != new for old, new in found.fail_overs)
    assert len(found.fail_overs) == fail_overs
