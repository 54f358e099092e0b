"""The fault `limit` where a process is gone, or going, when it is looked at."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from cluster.backends.base import BackendError, Death
from nemeses.base import Injection
from nemeses.registry import FAULTS


class Dying:
    """A backend of one node, whose file size limit the kernel lifts while it exits."""

    def __init__(self, now: int | None, deaths: tuple[Death, ...]) -> None:
        self.now = now
        self.deaths = deaths

    def abilities(self) -> SimpleNamespace:
        return SimpleNamespace(limits=self)

    async def measure(self, node: str, _name: str) -> int:
        if self.now is None:
            raise BackendError(f"{node} is dead: it has no limits")
        return self.now

    def unexpected_deaths(self) -> tuple[Death, ...]:
        return self.deaths


def verified(now: int | None, *deaths: Death) -> Injection:
    """What verifying a limit of 0 bytes says when the process shows `now` (None: it is gone)."""
    parameters = {"limit": "file-size", "value": 0}
    detail = {"nodes": {"n1": {"incarnation": 2}}, "chosen": {"n1": parameters}}
    injection = Injection("limit", parameters, ("n1",), verified=True, applied=True, detail=detail)
    view = SimpleNamespace(backend=Dying(now, deaths))
    return asyncio.run(FAULTS["limit"].verify(view, injection))


OWN = Death("n1", 2, 1, ())


@pytest.mark.parametrize("now", [None, -1])
def test_a_node_that_ends_over_its_limit_was_bitten_whatever_it_shows_meanwhile(now: int | None):
    injection = verified(now, OWN)
    assert injection.verified
    assert injection.detail["nodes"]["n1"]["ended_itself"]


@pytest.mark.parametrize("now", [None, -1])
def test_another_life_of_the_node_explains_nothing(now: int | None):
    injection = verified(now, Death("n1", 1, 1, ()))
    assert not injection.verified
    assert injection.detail["reason"]


def test_a_node_that_lives_under_the_limit_is_bitten():
    assert verified(0).detail["nodes"]["n1"] == {"incarnation": 2, "now": 0}
