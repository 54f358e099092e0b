"""Faults that raise, answer nonsense or contradict themselves: what they did is healed or reported.

The cluster is whole again at the end, or the run is no PASS: checked in whole runs in virtual time.
"""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from checkers.runs.faults import not_healed
from cluster.backends.base import BackendError, NodeState, Probe
from harness.run.nemesis import RunView
from nemeses.base import Injection, ParameterError, Refusal
from nemeses.drive import heal_all
from nemeses.registry import FAULTS
from tests.harness.fake_cluster import FakeCluster
from tests.harness.test_run_phases import notes, plan, play

THE_PLAN = {
    "duration_s": 8,
    "rate_per_s": 20,
    "faults": [],
    "schedule": [{"fault": "theirs", "at_s": 1, "for_s": 2}],
    "workload_options": {"keys": 3},
}


class Theirs:
    """Pauses n1 and cuts it off, and marks it in a way that no backend knows of."""

    name = "theirs"

    def __init__(self):
        self.marked = set()
        self.injected = 0

    def check(self, parameters, nodes):
        pass

    def options(self, nodes):
        return ({},)

    async def probe(self, view):
        return Probe(possible=True)

    async def inject(self, view, parameters):
        self.injected += 1
        await view.backend.pause("n1")
        await view.backend.cut_links([("n1", "n2")])
        self.marked.add("n1")
        return Injection("theirs", {}, ("n1",), verified=False, applied=True)

    async def verify(self, view, injection):
        return replace(injection, verified=True)

    async def heal(self, view, injection):
        for node in injection.targets:
            await view.backend.resume(node)
            self.marked.discard(node)
        await view.backend.restore_links([("n1", "n2")])
        return replace(injection, verified=True)


class NamesItself(Theirs):
    """Heals what it noted, which is unknown where it raised."""

    async def heal(self, view, injection):
        self.marked.discard(injection.detail["node"])
        return replace(injection, verified=True)


def raises(error, fault=Theirs):
    class Raises(fault):
        async def inject(self, view, parameters):
            await super().inject(view, parameters)
            raise error

    return Raises()


class AnswersNothing(Theirs):
    async def inject(self, view, parameters):
        await super().inject(view, parameters)


class ForgetsThatItActed(Theirs):
    async def inject(self, view, parameters):
        return replace(await super().inject(view, parameters), applied=False, verified=True)


class ForgetsInVerify(Theirs):
    async def verify(self, view, injection):
        return Injection("theirs", {}, ("n1",), verified=True)


class HealsNothing(Theirs):
    async def heal(self, view, injection):
        await super().heal(view, injection)


def run_with(monkeypatch, fault):
    """Return the events of a run with a package's fault, and the cluster after its heals."""
    monkeypatch.setitem(FAULTS._own, "theirs", fault)
    cluster = FakeCluster()
    left = {}
    down = cluster.down

    async def look_and_go_down():
        left.setdefault("paused", [n for n, s in cluster.states.items() if s is NodeState.PAUSED])
        left.setdefault("cut", sorted(cluster.cut))
        await down()

    cluster.down = look_and_go_down
    events, _ = play(plan(**THE_PLAN), cluster)
    return events, {**left, "marked": sorted(fault.marked)}


WHOLE = {"paused": [], "cut": [], "marked": []}


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        Theirs(),
        raises(RuntimeError("lost my way")),
        raises(BackendError("n2 cannot be reached")),
        raises(SystemExit(0)),
        AnswersNothing(),
        ForgetsThatItActed(),
        ForgetsInVerify(),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_what_a_fault_did_is_healed_whatever_it_says_of_it(monkeypatch, fault):
    events, left = run_with(monkeypatch, fault)
    assert fault.injected > 0
    assert left == WHOLE
    assert not_healed(events) == []


@pytest.mark.parametrize(
    "fault", [raises(RuntimeError("lost my way"), NamesItself), HealsNothing()]
)
def test_what_cannot_be_measured_to_be_gone_is_reported(monkeypatch, fault):
    events, _ = run_with(monkeypatch, fault)
    assert fault.injected == 1  # it is not tried again on top of what is left
    [left] = not_healed(events)
    assert left.startswith("theirs of n1")


def test_an_injection_that_raised_is_journaled_with_its_reason_and_every_node(monkeypatch):
    events, _ = run_with(monkeypatch, raises(RuntimeError("lost my way")))
    injected = [value for value in notes(events, "theirs") if value["phase"] == "inject"]
    assert injected[0]["targets"] == ["n1", "n2", "n3"]
    assert injected[0]["verified"] is False
    assert "RuntimeError: lost my way" in injected[0]["detail"]["reason"]


def test_a_partition_that_raised_after_it_cut_is_healed_by_its_own_heal():
    class Raises(FakeCluster):
        async def cut_links(self, links):
            await super().cut_links(links)
            raise RuntimeError("lost my way")

    cluster = Raises()
    schedule = [{"fault": "partition", "at_s": 1, "for_s": 2}]
    events, _ = play(plan(**{**THE_PLAN, "schedule": schedule}), cluster)
    healed = [value for value in notes(events, "partition") if value["phase"] == "heal"]
    assert healed
    assert all(value["verified"] and value["detail"]["restored"] for value in healed)
    assert notes(events, "sweep") == []
    assert not_healed(events) == []


def test_a_sweep_ends_though_a_node_s_state_is_never_known():
    class Deaf(FakeCluster):
        async def state(self, node):
            return await (for_ever() if node == "n2" else super().state(node))

    async def body():
        cluster = Deaf()
        cluster.states["n3"] = NodeState.PAUSED
        view = SimpleNamespace(backend=cluster, bound_s=0.05, active=[])
        [swept] = await heal_all(view)
        return swept, cluster.states["n3"]

    swept, n3 = asyncio.run(body())
    assert n3 is NodeState.RUNNING
    assert (swept.verified, swept.targets) == (False, ("n1", "n2", "n3"))
    assert "not end within 0.05 s" in swept.detail["reason"]


@pytest.mark.parametrize("refusal", [Refusal("no leader"), ParameterError("no such node")])
def test_a_refusal_needs_no_heal(monkeypatch, refusal):
    class Refuses(Theirs):
        async def inject(self, view, parameters):
            self.injected += 1
            raise refusal

        async def heal(self, view, injection):
            raise AssertionError("there is nothing to heal")

    fault = Refuses()
    events, left = run_with(monkeypatch, fault)
    assert fault.injected > 1  # it is tried again
    assert left == WHOLE
    assert not_healed(events) == []
    values = notes(events, "theirs")
    assert {tuple(value["targets"]) for value in values} == {()}
    assert str(refusal) in values[0]["detail"]["reason"]


async def for_ever(*_):
    await asyncio.get_running_loop().create_future()


async def deaf(*_):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("wait", [for_ever, deaf])
@pytest.mark.parametrize("verb", ["inject", "verify", "heal"])
def test_a_run_ends_though_a_fault_does_not(monkeypatch, verb, wait):
    class Hangs(Theirs):
        pass

    act = getattr(Theirs, verb)

    async def act_and_wait(fault, view, given):
        if verb == "inject":
            await act(fault, view, given)
        await wait()

    setattr(Hangs, verb, act_and_wait)
    fault = Hangs()
    events, left = run_with(monkeypatch, fault)
    assert fault.injected == 1
    assert events[-1].time_ns / 1e9 < 2 * RunView.bound_s
    bound = f"did not end within {RunView.bound_s:g} s"
    assert any(bound in str(value["detail"].get("reason")) for value in notes(events, "theirs"))
    if verb == "heal":
        [unhealed] = not_healed(events)
        assert unhealed.startswith("theirs of n1")
        assert bound in unhealed
    else:
        assert left == WHOLE
        assert not_healed(events) == []


def test_a_fault_that_is_cancelled_by_itself_does_not_end_the_nemesis(monkeypatch):
    async def cancelled(*_):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    class IsCancelled(Theirs):
        inject = cancelled

    events, left = run_with(monkeypatch, IsCancelled())
    assert left == WHOLE
    values = notes(events, "theirs")
    assert [value["phase"] for value in values[:2]] == ["inject", "heal"]
    assert "cancelled" in values[0]["detail"]["reason"]
