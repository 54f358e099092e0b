"""Faults over which a node must end itself: what counts as having done so."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.backends.abilities import DiskFault, DiskMeasure
from cluster.backends.base import BackendError, Death, NodeState
from nemeses.base import Injection
from nemeses.disks import damage, io_faults, log_files
from nemeses.registry import FAULTS


class Node:
    """A backend of one node that does not start, and whose disk failed an fsync."""

    def __init__(self, *, dies: bool = False, state: NodeState = NodeState.RUNNING) -> None:
        self.dies = dies
        self.node_state = state
        self.lives = 0

    def abilities(self) -> SimpleNamespace:
        return SimpleNamespace(disks=self)

    async def hits(self, _node: str) -> dict[DiskFault, int]:
        return {DiskFault.FSYNC_ERROR: 1}

    async def state(self, _node: str) -> NodeState:
        return self.node_state

    async def start(self, node: str) -> None:
        self.lives += 1
        raise BackendError(f"{node} did not answer within 30 s")

    def incarnation(self, _node: str) -> int:
        return self.lives

    def unexpected_deaths(self) -> tuple[Death, ...]:
        first = (Death("n1", 0, 1, ()),)  # an earlier one, which explains nothing
        return (*first, Death("n1", self.lives, 1, ())) if self.dies else first


def verified(node: Node, fault: str, **measured: Any) -> Injection:
    detail = {"nodes": {"n1": measured}, "chosen": {"n1": {}}}
    injection = Injection(fault, {}, ("n1",), verified=True, applied=True, detail=detail)
    return asyncio.run(FAULTS[fault].verify(SimpleNamespace(backend=node), injection))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(damage, "NOTICED_S", 0.2)
    monkeypatch.setattr(io_faults, "DEATH_TIMEOUT_S", 0.2)


def test_a_full_disk_of_a_busy_machine_is_measured_until_its_write_has_failed():
    async def measure(_node: str, timeout_s: float) -> DiskMeasure:
        return DiskMeasure(None, None, "ENOSPC" if timeout_s > 2.0 else None)

    node = Node()
    node.measure = measure
    assert verified(node, "disk-full").verified


def test_a_node_that_ends_as_it_starts_has_refused_its_damaged_files():
    assert verified(Node(dies=True), "bit-flip", damage={"byte": 7}).verified


def test_a_node_that_only_does_not_answer_has_not_refused_its_damaged_files():
    injection = verified(Node(), "bit-flip", damage={"byte": 7})
    assert not injection.verified
    assert "n1 did not end" in injection.detail["reason"]


def test_a_node_that_lives_on_after_a_failed_fsync_is_wrong():
    (violation,) = verified(Node(), "disk-error", incarnation=0).detail["violations"]
    assert violation["kind"] == "fsync-error-ignored"


def test_a_node_that_another_fault_stopped_could_not_end_itself():
    injection = verified(Node(state=NodeState.PAUSED), "disk-error", incarnation=0)
    assert "violations" not in injection.detail
    assert injection.detail["nodes"]["n1"]["ended_itself"] is None


def test_a_node_that_another_fault_stopped_and_started_could_not_end_itself():
    node = Node()
    node.lives = 1
    injection = verified(node, "disk-error", incarnation=0)
    assert "violations" not in injection.detail
    assert injection.detail["nodes"]["n1"]["ended_itself"] is None


def stand_still() -> None:
    """Stop the harness with the machine, for longer than a node has."""
    time.sleep(0.4)


def test_no_node_can_end_itself_on_a_machine_that_stands_still():
    class Standing(Node):
        async def state(self, _node: str) -> NodeState:
            self.lives, state = 0, self.node_state
            stand_still()
            self.node_state = NodeState.DEAD
            return state

    injection = verified(Standing(), "disk-error", incarnation=0)
    assert "violations" not in injection.detail
    assert injection.detail["nodes"]["n1"]["ended_itself"]


def test_no_node_can_repair_its_log_on_a_machine_that_stands_still(monkeypatch):
    looks = []

    async def keeps(*_where: object) -> bool:
        looks.append(stand_still())
        return len(looks) < 2

    monkeypatch.setattr(log_files, "REPAIRED_S", 0.3)
    monkeypatch.setattr(log_files, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(log_files, "_keeps", keeps)
    detail = {"nodes": {"n1": {"damage": {"file": "t-0/0.log", "byte": 7}}}}
    parameters = {"file": log_files.PARTITION}
    damage = Injection("bit-flip", parameters, ("n1",), True, detail, applied=True)
    node = Node()
    view = SimpleNamespace(backend=node, active=())
    assert asyncio.run(FAULTS["bit-flip"].check_gone(view, "n1", damage)).violation is None
