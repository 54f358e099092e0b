"""Brokers of Apache Kafka lose nothing on controllers of ours that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.client.real_brokers import produce_and_consume
from tests.kafka_release import release


@pytest.mark.cluster
def test_records_survive_fail_overs_of_our_controllers(tmp_path: Path):
    found = produce_and_consume(tmp_path, release(), records=20_000, fail_overs=2)
    assert found.acknowledged == 20_000
    assert (found.lost, found.repeated) == ([], 0)
    assert all(old != new for old, new in found.fail_overs)
    assert len(found.fail_overs) == 2
