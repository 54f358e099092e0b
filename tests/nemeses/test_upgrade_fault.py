"""Upgrades of fake nodes that print their release as Kafka's do."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from fake_system import FakeSystem
from hosted_nodes import run_up

from cluster.backends.base import NodeState
from cluster.backends.local.local_backend import LocalBackend
from cluster.node.errors import ErrorCode
from cluster.systems.kafka.output_traces import OutputReader
from harness.campaigns import load
from harness.commands.run import compose
from harness.errors import PlanError
from harness.plan.document import from_document
from harness.plan.stored_document import checks_for
from nemeses import queries
from nemeses.drive import heal, inject
from nemeses.processes import upgrade
from nemeses.quorum import finalize
from tests.play import play
from tests.views import StubView

NAMES = ("1.0.0, commit a1", "2.0.0, commit b2", "3.0.0, commit c3")
PRINTING = """
import os, sys
sys.stdout.write(sys.argv[1])
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class Printing(FakeSystem):
    """Nodes that print the release that they are started as, but for one that stays what it was."""

    releases = NAMES

    def __init__(self, stuck: str = "", silent: str = "") -> None:
        super().__init__()
        self.stuck, self.silent = stuck, silent

    def command(self, node):
        _, *arguments = super().command(node)
        release = 0 if node.name == self.stuck else node.release
        version, _, commit = NAMES[release].partition(", commit ")
        facts = json.dumps({"node_id": node.node_id, "pid": 1, "directory_id": ""})
        said = f"\n1|INFO|kraftprobe.start|{facts}\n"
        if node.name != self.silent:
            said += f"2|INFO|a.AppInfoParser|Kafka version: {version}\n"
            said += f"3|INFO|a.AppInfoParser|Kafka commitId: {commit}\n"
        return (node.interpreter, "-I", "-S", "-c", PRINTING, said, *arguments)

    def trace_source(self, folder):
        return folder / "stdout.log"

    def trace_reader(self, folder):
        return OutputReader()


@pytest.fixture
def on_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(upgrade, "LEGAL_WITHIN_S", 0.2)

    def run(body, system=None):
        backend = LocalBackend(system or Printing(), tmp_path, 3, "run-1")
        run_up(backend, lambda up: body(StubView(up)))

    return run


def releases(view):
    return view.backend.abilities().releases


async def printed(view):
    return [await releases(view).measure(node) for node in view.backend.nodes]


@play("on_nodes")
async def test_a_node_becomes_the_next_release_and_the_one_before(view):
    before = await view.backend.process("n2")
    done = await inject(view, "upgrade", {"targets": "leader"})
    assert (done.targets, done.verified) == (("n2",), True), done.detail
    assert (done.detail["from"], done.detail["to"]) == ({"n2": NAMES[0]}, {"n2": NAMES[1]})
    assert await view.backend.process("n2") != before
    assert await printed(view) == [NAMES[0], NAMES[1], NAMES[0]]
    assert (await heal(view, done)).verified
    assert await printed(view) == [NAMES[0], NAMES[1], NAMES[0]], "it is for good"
    back = await inject(view, "upgrade", {"targets": "node:n2", "to": "previous"})
    assert back.verified
    assert await printed(view) == [NAMES[0]] * 3


@play("on_nodes")
async def test_nodes_follow_each_other_and_go_as_far_as_there_are_releases(view):
    async def down(view) -> int:
        states = [await view.backend.state(node) for node in view.backend.nodes]
        return states.count(NodeState.DEAD)

    for name in NAMES[1:]:
        injecting = asyncio.ensure_future(inject(view, "upgrade", {"targets": "all"}))
        at_once = 0
        while not injecting.done():
            at_once = max(at_once, await down(view))
            await asyncio.sleep(0.005)
        assert injecting.result().verified
        assert at_once <= 1
        assert await printed(view) == [name] * 3
    refused = await inject(view, "upgrade", {"targets": "all"})
    assert (refused.applied, "no further release" in refused.detail["reason"]) == (False, True)
    refused = await inject(view, "upgrade", {"targets": "node:n1"})
    assert not refused.applied


@play("on_nodes")
async def test_a_killed_node_stays_what_it_became(view):
    assert (await inject(view, "upgrade", {"targets": "node:n1"})).verified
    killed = await inject(view, "kill", {"targets": "node:n1"})
    refused = await inject(view, "upgrade", {"targets": "node:n1"})
    assert not refused.applied, "it is dead"
    assert (await heal(view, killed)).verified
    assert await printed(view) == [NAMES[1], NAMES[0], NAMES[0]]


@play("on_nodes")
async def test_an_upgrade_waits_until_its_node_runs(view, *, monkeypatch):
    monkeypatch.setattr(upgrade, "LEGAL_WITHIN_S", 600.0)
    paused = await inject(view, "pause", {"targets": "node:n1"})
    waiting = asyncio.ensure_future(inject(view, "upgrade", {"targets": "node:n1"}))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await heal(view, paused)
    assert (await waiting).verified


@play("on_nodes", Printing(stuck="n3"))
async def test_a_node_that_prints_another_release_was_not_upgraded(view):
    done = await inject(view, "upgrade", {"targets": "node:n3"})
    assert (done.applied, done.verified) == (True, False)
    assert done.detail["reason"] == f"n3 printed {NAMES[0]}, not {NAMES[1]}"
    assert await view.backend.state("n3") is NodeState.RUNNING


def test_a_node_that_prints_nothing_is_not_known_to_be_upgraded(on_nodes, monkeypatch):
    monkeypatch.setattr(upgrade, "PRINTED_WITHIN_S", 0.1)

    async def body(view) -> None:
        done = await inject(view, "upgrade", {"targets": "node:n3"})
        assert (done.applied, done.verified) == (True, False)
        assert done.detail["reason"] == f"n3 printed no release, not {NAMES[1]}"

    on_nodes(body, Printing(silent="n3"))


@play("on_nodes", FakeSystem())
async def test_nodes_of_one_release_have_no_upgrade(view):
    refused = await inject(view, "upgrade", {"targets": "random"})
    assert not refused.applied
    assert "--kafka-version OLD,NEW" in refused.detail["reason"]


def finalize_for(monkeypatch, parameters, answer, levels):
    """Ask for a level; `answer`, `levels`: at a time in s, of leaders."""
    now_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def answer_now(*_: object) -> ErrorCode:
        return answer(now_s)

    async def levels_now(*_: object) -> tuple[int, int]:
        return levels(now_s)

    loop = SimpleNamespace(time=lambda: now_s)
    clock = SimpleNamespace(get_running_loop=lambda: loop, sleep=sleep)
    monkeypatch.setattr(queries, "asyncio", clock)
    monkeypatch.setattr(finalize, "finalize", answer_now)
    monkeypatch.setattr(finalize, "_ask_levels", levels_now)
    view = SimpleNamespace(backend=SimpleNamespace(nodes=("n1", "n2", "n3")))
    fault = finalize.Finalize()

    async def body():
        done = await fault.inject(view, parameters)
        return await fault.verify(view, done)

    return asyncio.run(body())


def test_a_level_is_asked_for_until_a_voter_that_was_killed_supports_it(monkeypatch):
    accepted_s = 45.0
    """It starts for half a minute on a starved machine, and says then what it supports."""
    done = finalize_for(
        monkeypatch,
        {"feature": "kraft.version"},
        lambda s: ErrorCode.none if s >= accepted_s else ErrorCode.invalid_update_version,
        lambda s: (int(s >= accepted_s), 1),
    )
    assert (done.applied, done.verified, done.detail["after"]) == (True, True, 1)
    assert {*done.detail["answers"]} == {"invalid_update_version", "none"}


@pytest.mark.parametrize(
    ("answer", "verified"),
    [("invalid_update_version", True), ("not_controller", False), ("none", False)],
)
def test_only_a_refusal_of_a_leader_is_one(monkeypatch, answer, verified):
    asked = {"level": "lower", "refused": True}
    done = finalize_for(monkeypatch, asked, lambda _: ErrorCode[answer], lambda _: (30, 33))
    assert (done.applied, done.verified) == (True, verified)


PLAN = {
    "system": "apache-kafka",
    "workload": "set",
    "faults": ["upgrade"],
    "duration_s": 60,
    "system_options": {"releases": ["4.2.2", "4.3.1"]},
}


def test_a_plan_names_its_releases_as_a_list_or_a_text():
    plan = from_document(PLAN)
    assert plan.system_options == {"releases": "4.2.2,4.3.1"}
    assert from_document(plan.to_json()) == plan
    text = {**PLAN, "system_options": {"releases": "4.2.2,4.3.1"}}
    assert from_document(text).system_options == plan.system_options


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"kafka_version": "4.1.2,4.3.1"}, {"releases": "4.1.2,4.3.1"}),
        ({"kafka_version": "4.3.1, /k/build"}, {"releases": "4.3.1,/k/build"}),
        ({"system_options": ("quorum=static",)}, {"releases": "4.3.1,4.4.0", "quorum": "static"}),
        ({"kafka_version": "4.4.0"}, {"version": "4.4.0"}),
        ({"kafka_version": "4.3.1,4.4.0", "system": "kafka-raft"}, {"version": "4.3.1,4.4.0"}),
    ],
)
def test_the_command_line_names_releases_in_place_of_the_campaigns(asked, options):
    document = compose({"campaign": "upgrade", "seed": 1, **asked})
    assert document["system_options"] == options


def test_the_campaign_upgrades_every_node_and_finalizes():
    plan = from_document(load("upgrade"))
    kinds = [step.kind for strand in plan.strands for step in strand.steps]
    assert (kinds.count("upgrade"), kinds.count("finalize")) == (plan.nodes + 2, 3)
    assert {"kill", "pause", "partition"} < set(kinds)


def test_a_plan_with_upgrades_is_judged_by_the_check_of_upgrades():
    row = {"fault": "finalize", "at_s": 30}
    document = {**PLAN, "schedule": [{"fault": "upgrade", "at_s": 3}, {**row}, {**row, "at_s": 40}]}
    plan = from_document({key: value for key, value in document.items() if key != "faults"})
    [spec] = [spec for spec in checks_for(plan) if spec.name == "upgrade"]
    assert spec.options == {"steps": {"upgrade": 1, "finalize": 2}, "session_ms": 3000}
    assert not [s for s in checks_for(from_document({**PLAN, "faults": []})) if s.name == "upgrade"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": "4.3.1"}, "--kafka-version OLD,NEW"),
        ({"releases": "4.3.1"}, "two releases or more"),
        ({"releases": ["4.3.1", "4.3.1"]}, "4.3.1 follows itself"),
        ({"releases": ["4.3.1", "4.4"]}, "'4.4' is no version"),
        ({"releases": ["3.8.1", "4.0.0"]}, "quorum=static"),
        ({"releases": ["4.3.1", "4.4.0"], "version": "4.4.0"}, "give no version beside them"),
        ({"releases": ["4.3.1", "4.4.0"], "home": "/k"}, "give no home beside them"),
        ({"releases": ["4.3.1", 4]}, "must be a string"),
    ],
)
def test_what_is_no_upgrade_is_refused_before_anything_starts(options, said):
    with pytest.raises(PlanError, match=said):
        from_document({**PLAN, "system_options": options})


@pytest.mark.parametrize("system", ["kraft", "mixed"])
def test_systems_without_releases_have_no_upgrade(system):
    document = {**PLAN, "system": system}
    with pytest.raises(PlanError, match=r"--kafka-version OLD,NEW|unknown option 'releases'"):
        from_document(document)
    del document["system_options"]
    with pytest.raises(PlanError, match="--kafka-version OLD,NEW"):
        from_document(document)
