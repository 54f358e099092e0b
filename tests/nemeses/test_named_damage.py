"""Damage where a system says: which byte, what the node must do then, and what is brought back."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.backends.abilities import Damage
from cluster.backends.base import BackendError, NodeState
from cluster.systems.base import Damageable
from nemeses.disks.damage import READ_MOST
from nemeses.drive import inject
from nemeses.registry import FAULTS


class Place:
    """Three nodes and their disks; `starts`: whether a node starts on what was damaged."""

    nodes = ("n1", "n2", "n3")

    def __init__(self, *, refuses, starts, places=(3, 5, 9)):
        self.calls = []
        self.dead = set()
        self.starts = starts
        self.intact = True
        self.damageable = lambda files: Damageable(max(files), lambda _: places, refuses=refuses)

    def abilities(self):
        return SimpleNamespace(disks=self, crashes=None)

    async def kill(self, node):
        self.dead.add(node)

    stop = kill

    async def start(self, node):
        if not self.intact and not self.starts:
            raise BackendError(f"{node} ended with 1: crc mismatch")
        self.dead.discard(node)

    async def state(self, node):
        return NodeState.DEAD if node in self.dead else NodeState.RUNNING

    def incarnation(self, _):
        return 0

    def unexpected_deaths(self):
        return (SimpleNamespace(node="n1", incarnation=0),)

    async def files(self, _):
        return {"log.1": 10, "log.2": 10}

    async def read(self, _, path, most):
        assert (path, most) == ("log.2", READ_MOST)
        return bytes(10)

    async def damage(self, node, kind, path, position):
        self.intact = False
        self.calls.append((node, kind, path, position))

    async def restore(self, node):
        self.intact = True
        self.calls.append(("restore", node))

    async def give_up(self, node):
        self.intact = True
        self.calls.append(("give up", node))


def faulted(place, fault, *targets):
    """Inject, verify and heal on each target in turn; returns the verified injections."""

    async def body():
        view = SimpleNamespace(
            backend=place,
            active=[],
            bound_s=None,
            controllers=place.nodes,
            random=SimpleNamespace(random=lambda: 0.5),
        )
        seen = []
        for target in targets:
            seen.append(await inject(view, fault, {"targets": f"node:{target}"}))
            if seen[-1].applied:
                await FAULTS[fault].heal(view, seen[-1])
            view.active.clear()
        return seen

    return asyncio.run(body())


def test_a_node_that_must_refuse_does_and_gets_its_file_back():
    place = Place(refuses=True, starts=False)
    (seen,) = faulted(place, "bit-flip", "n1")
    assert seen.verified
    assert seen.detail["nodes"]["n1"]["damage"] == {"file": "log.2", "byte": 5, "refuses": True}
    assert place.calls == [("n1", Damage.BIT_FLIP, "log.2", 5), ("restore", "n1")]


def test_a_node_that_starts_where_it_must_refuse_is_wrong():
    (seen,) = faulted(Place(refuses=True, starts=True), "bit-flip", "n1")
    assert [violation["kind"] for violation in seen.detail["violations"]] == ["damage-accepted"]


@pytest.mark.parametrize(
    ("starts", "then"), [(True, ("give up", "n1")), (False, ("restore", "n1"))]
)
def test_of_one_that_may_start_only_what_refused_gets_its_file_back(starts, then):
    place = Place(refuses=False, starts=starts)
    (seen,) = faulted(place, "truncate-file", "n1")
    assert seen.verified
    assert "violations" not in seen.detail
    assert place.calls == [("n1", Damage.TRUNCATE, "log.2", 5), then]


def test_what_went_on_with_damaged_files_counts_as_damaged_to_the_end():
    first, other, again = faulted(Place(refuses=False, starts=True), "bit-flip", "n1", "n2", "n1")
    assert (first.applied, other.applied, again.applied) == (True, False, True)
    assert other.detail["reason"] == "n1, n2 would be without their disks: more than a minority"


def test_a_node_that_has_written_too_little_is_not_damaged():
    place = Place(refuses=True, starts=True, places=())
    (seen,) = faulted(place, "bit-flip", "n1")
    assert not seen.verified
    assert seen.detail["reason"] == "n1 has written too little to damage"
    assert place.calls == [("restore", "n1")]
