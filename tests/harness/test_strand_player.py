"""Steps of a strand in a world in which faults take time to act."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from checkers.evidence.standings import Standings
from cluster.backends.sim.loop import run
from harness.plan.document import from_document
from harness.run import plan_backend
from harness.run.plan_backend import place_of
from harness.run.recorder import Recorder
from harness.run.strands import player
from harness.run.strands.player import Player
from harness.run.strands.progress import LoopTimers
from nemeses.base import application
from tests.harness.world import Journal

NODES = ("n1", "n2", "n3")


def times_of_heals(monkeypatch, acts_after_s, *steps):
    """Play the steps where a fault acts that late; returns when one was healed, in seconds."""
    return play(monkeypatch, acts_after_s, *steps)[0]


def missing_steps(monkeypatch, *steps, **document):
    """Play them; returns place, wish and condition of what the journal says did not come."""
    notes = play(monkeypatch, 0.0, *steps, **document)[2]
    return [(note["place"][10:], note.get("wanted"), note.get("until")) for note in notes]


def play(monkeypatch, acts_after_s, *steps, **document):
    """Play them where n1 leads; returns also what was journaled of injections and steps."""
    healed, journal = [], Journal()

    async def main():
        loop = asyncio.get_running_loop()
        backend = SimpleNamespace(nodes=NODES, incarnation=lambda _node: 0)
        view = SimpleNamespace(active=[], backend=backend)

        async def inject(view, fault, parameters, acted):
            await asyncio.sleep(acts_after_s)
            injection = application(
                fault, parameters, [parameters["targets"].removeprefix("node:")], {}
            )
            view.active.append(injection)
            acted()
            return replace(injection, verified=True)

        async def heal(view, injection):
            healed.append(loop.time())
            view.active.clear()
            return replace(injection, verified=True)

        drive = SimpleNamespace(inject=inject, heal=heal, heal_order=list)
        monkeypatch.setattr(player, "drive", drive)
        plan = from_document({"nodes": 3, "schedule": [{"steps": list(steps)}], **document})
        recorder = Recorder(journal, loop.time)
        standings = Standings(NODES)
        standings.take_event("n1", "state", {"state": "Leader", "epoch": 1, "leader_id": 1})
        playing = Player(
            plan,
            standings,
            LoopTimers(loop),
            lambda _random: view,
            recorder,
            lambda *_: None,
            lambda *_: None,
            acted_within_ms=1000.0,
        )
        playing.begin()
        await asyncio.sleep(20)
        playing.stop()
        await playing.close()

    run(main())
    injected = [e.value for e in journal.events if e.value.get("phase") == "inject"]
    return healed, injected, [e.value for e in journal.events if e.f == "missing"]


KILL = {"kind": "kill", "targets": "node:n1"}


def test_a_heal_waits_for_a_fault_of_its_strand_that_is_slow_to_act(monkeypatch):
    steps = KILL, {"kind": "heal", "fault": "kill", "targets": "node:n1"}
    assert times_of_heals(monkeypatch, 3.0, *steps) == [3.0]


def test_a_heal_waits_for_no_fault_of_another_kind(monkeypatch):
    steps = KILL, {"kind": "heal", "fault": "pause", "after_ms": 500.0}
    assert times_of_heals(monkeypatch, 3.0, *steps) == []


def test_a_name_that_is_given_again_may_stand_for_the_node_that_had_it(monkeypatch):
    names = {"L": "leader", "F": "follower"}
    cast = {"kind": "cast", "names": names}
    kill = {"kind": "kill", "targets": "@L"}
    _, [injected], _ = play(monkeypatch, 0.0, cast, cast, kill)
    assert injected["targets"] == ["n1"]


def test_a_name_may_be_given_to_the_node_of_another_that_is_given_again(monkeypatch):
    cast = {"kind": "cast", "names": {"A": "node:n3", "B": "node:n2"}}
    again = {"kind": "cast", "names": {"A": "@B", "B": "leader"}}
    kills = [{"kind": "kill", "targets": f"@{name}"} for name in "AB"]
    _, injected, _ = play(monkeypatch, 0.0, cast, again, *kills)
    assert [each["targets"] for each in injected] == [["n2"], ["n1"]]


def test_a_fault_at_a_name_that_no_node_has_is_journaled_with_the_reason(monkeypatch):
    cast = {"kind": "cast", "names": {"L": "leader", "A": "leader"}}
    _, [injected], _ = play(monkeypatch, 0.0, cast, {"kind": "kill", "targets": "@A"})
    assert (injected["targets"], injected["applied"]) == ([], False)
    assert injected["detail"]["reason"] == "no node has the name"


LATE = {**KILL, "after_ms": 60_000.0}
NEVER = {**KILL, "until": {"at": "node:n2", "state": "Leader"}, "within_ms": 100.0}


def test_steps_behind_the_end_are_journaled_and_wanted_where_the_plan_names_its_faults(monkeypatch):
    write = {"kind": "op", "f": "write", "key": "k0", "value": "x"}
    steps = KILL, LATE, {"kind": "heal"}, write
    late = [("step 2", True, None), ("step 3", None, None), ("step 4", True, None)]
    assert missing_steps(monkeypatch, *steps) == late
    assert missing_steps(monkeypatch, write, {**write, "after_ms": 60_000.0})[0][1] is True
    unnamed = missing_steps(monkeypatch, *steps, faults=[])
    assert [wanted for _, wanted, _ in unnamed] == [None] * 3


def test_a_wait_that_ends_without_its_condition_is_journaled(monkeypatch):
    in_vain = [("step 1", None, NEVER["until"])]
    assert missing_steps(monkeypatch, NEVER, KILL) == in_vain
    ended = missing_steps(monkeypatch, {**NEVER, "strict": True}, KILL)
    assert ended == [("step 1", None, None), ("step 2", None, None)]


def test_nodes_are_started_with_what_a_fault_of_a_step_needs(monkeypatch, tmp_path):
    asked = []
    backends = {"local": SimpleNamespace(create=asked.append)}
    monkeypatch.setattr(plan_backend, "BACKENDS", backends)
    step = {"kind": "disk-slow", "targets": "all"}
    plan = from_document({"backend": "local", "faults": [], "schedule": [{"steps": [step]}]})
    with place_of(plan, None, tmp_path, print):
        pass
    assert [each.needs for each in asked] == [{"disks"}]
