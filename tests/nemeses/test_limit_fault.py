"""The fault `limit`: what counts as a process that ran into it."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.backends.abilities import LimitMeasure
from cluster.backends.base import BackendError, Death, NodeState
from cluster.node.ports import Failure
from nemeses.base import Injection, application
from nemeses.processes import limits
from nemeses.registry import FAULTS

OWN = Death("n1", 2, 1, ())


class Node:
    """A backend of one node that has descriptors for `takes` more connections.

    The kernel shows `soft` as its limit (None: the process is gone).
    """

    def __init__(self, soft: int | None, takes: int, room: int, deaths: tuple[Death, ...]) -> None:
        self.soft, self.takes, self.room, self.deaths = soft, takes, room, deaths
        self.open = 0

    def abilities(self) -> SimpleNamespace:
        return SimpleNamespace(limits=self)

    async def measure(self, node: str, _name: str) -> LimitMeasure:
        if self.soft is None:
            raise BackendError(f"{node} is dead: it has no limits")
        return LimitMeasure(self.soft, self.room)

    async def state(self, _node: str) -> NodeState:
        return NodeState.RUNNING if self.soft is not None else NodeState.DEAD

    def unexpected_deaths(self) -> tuple[Death, ...]:
        return self.deaths

    def endpoint(self, node: str, listener: str) -> tuple[str, str]:
        return node, listener

    def client_network(self) -> SimpleNamespace:
        def request(_endpoint, _message, _timeout_ms, settle) -> None:
            self.open += 1
            settle("an answer" if self.open <= self.takes else Failure.TIMED_OUT)

        def close() -> None:
            self.open -= 1

        return SimpleNamespace(request=request, close=close)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "NOTICED_S", 0.2)


def verified(node: Node, limit: str, value: int) -> Injection:
    parameters = {"limit": limit, "value": value}
    detail = {"nodes": {"n1": {"incarnation": 2}}, "chosen": {"n1": parameters}}
    injection = Injection("limit", parameters, ("n1",), verified=True, applied=True, detail=detail)
    done = asyncio.run(FAULTS["limit"].verify(SimpleNamespace(backend=node), injection))
    assert node.open == 0, "no connection is left open"
    return done


def file_size(now: int | None, *deaths: Death) -> Injection:
    """What verifying a limit of 0 bytes says when the process shows `now`."""
    return verified(Node(now, 0, 0, deaths), "file-size", 0)


def descriptors(takes: int, room: int, soft: int = 16, value: int = 16) -> Injection:
    """What verifying a limit of descriptors says."""
    return verified(Node(soft, takes, room, ()), "descriptors", value)


@pytest.mark.parametrize("now", [None, -1, 0])
def test_a_node_that_ends_over_its_limit_was_bitten_whatever_it_shows_meanwhile(now: int | None):
    injection = file_size(now, OWN)
    assert injection.verified
    assert injection.detail["nodes"]["n1"]["ended_itself"]


@pytest.mark.parametrize("now", [None, -1])
def test_the_end_of_another_incarnation_does_not_verify_the_fault(now: int | None):
    injection = file_size(now, Death("n1", 1, 1, ()))
    assert not injection.verified
    assert injection.detail["reason"]


def test_a_file_size_limit_that_no_write_reached_has_not_bitten():
    injection = file_size(0)
    assert not injection.verified
    assert injection.detail["nodes"]["n1"]["now"] == 0
    assert "no write of it" in injection.detail["reason"]


def test_a_node_without_a_descriptor_for_a_connection_is_bitten():
    injection = descriptors(takes=3, room=0)
    assert injection.verified
    detail = injection.detail["nodes"]["n1"]
    assert (detail["room"], detail["connections"], detail["unanswered"]) == (0, 4, "timed-out")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"takes": 99, "room": 0}, "n1 answers on 17 more connections"),
        ({"takes": 999, "room": 700, "soft": 900, "value": 900}, "answers on 129 more connections"),
        ({"takes": 0, "room": 5}, "n1 has 5 descriptors left, and does not answer"),
        ({"takes": 0, "room": 0, "soft": 1024}, "n1: the limit is 1024"),
    ],
)
def test_a_limit_of_descriptors_without_effect_has_not_bitten(state, why):
    injection = descriptors(**state)
    assert not injection.verified
    assert why in injection.detail["reason"]


def test_nothing_of_a_limit_is_left_on_a_node_that_another_fault_holds_down():
    limit = application("limit", {}, ("n1",), {"nodes": {}, "chosen": {"n1": {}}})
    kill = application("kill", {}, ("n1",), {})
    view = SimpleNamespace(backend=Node(None, 0, 0, ()), active=[limit, kill])
    seen = asyncio.run(FAULTS["limit"].check_gone(view, "n1", limit))
    assert (seen.wrong, seen.detail["left_to"]) == ("", "kill")
