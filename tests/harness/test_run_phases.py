import asyncio
import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from checkers.evidence import Evidence, FinalRead
from checkers.history import EventType, pair
from checkers.registry import RunInput, run_check
from checkers.verdict import Status
from cluster.backends.base import BackendError, NodeState
from cluster.backends.sim.loop import run
from cluster.client.admin_client import CLIENT_METRICS_RESOURCE
from cluster.node.errors import ErrorCode
from cluster.node.ports import Failure
from cluster.node.runtime.clock import LoopClock
from cluster.node.runtime.trace import clock_name
from cluster.systems import kraft
from cluster.systems.cells import LIST_PREFIX
from cluster.systems.kafka import kind as kafka
from harness.plan.document import from_document
from harness.plan.plan import Plan
from harness.plan.stored_document import checks_for
from harness.run import clients as scripted_clients
from harness.run.final_reads import SENTINEL_PREFIX, Cells, read_all
from harness.run.final_reads import _read_node as read_node
from harness.run.interpreter import HarnessError
from harness.run.nemesis import QUIET_S, RETRIES_S, RunView
from harness.run.observer import Observer
from harness.run.phases import LATER_SHARE, Run, conduct, pinned_to
from harness.run.recorder import Recorder
from nemeses import drive
from nemeses.base import Injection
from tests.harness.fake_cluster import FakeCluster, FakeNetwork
from tests.harness.world import Journal
from workloads.base import Completion, Op
from workloads.register import Register, RegisterClient
from workloads.registry import WORKLOADS


def plan(**changes):
    document = {"campaign": "test", "seed": 3, "duration_s": 40, "rate_per_s": 100} | changes
    return from_document(document)


def conducting(the_plan, cluster, journal):
    """A run that is conducted in the running loop."""
    loop = asyncio.get_running_loop()
    recorder = Recorder(journal, loop.time, clock_name())
    return conduct(Run(the_plan, cluster, recorder, LoopClock(loop)))


def play(the_plan, cluster):
    """Conduct a run in virtual time: its events and final reads."""
    journal = Journal()

    async def main():
        return await conducting(the_plan, cluster, journal)

    return journal.events, run(main())


def verdict(the_plan, events, reads, check):
    evidence = Evidence(the_plan.node_names, {}, {}, {}, reads.reads)
    spec = next(spec for spec in checks_for(the_plan) if spec.name == check)
    return run_check(spec, RunInput(events, pair(events), evidence))


def notes(events, f):
    return [e.value for e in events if e.f == f and e.type is not EventType.INVOKE]


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["register", "topics", "set"])
def test_a_quorum_that_keeps_its_promises_passes(workload):
    the_plan = plan(workload=workload)
    events, reads = play(the_plan, FakeCluster())
    assert sorted(reads.reads) == ["n1", "n2", "n3"]
    for spec in (*the_plan.make_workload().checks(), "exercised"):
        result = verdict(the_plan, events, reads, getattr(spec, "name", spec))
        assert result.status is Status.PASS, result


def test_a_timed_fault_that_never_came_is_journaled_and_missed(monkeypatch):
    inject = drive.inject

    async def inject_slowly(*arguments):
        await asyncio.sleep(50)
        return await inject(*arguments)

    monkeypatch.setattr(drive, "inject", inject_slowly)
    kill = {"fault": "kill", "parameters": {"targets": "follower"}, "for_s": 1}
    the_plan = plan(schedule=[{**kill, "at_s": 1}, {**kill, "at_s": 10}])
    events, reads = play(the_plan, FakeCluster())
    assert notes(events, "missing") == [{"place": "fault 2", "kind": "kill", "wanted": True}]
    exercised = verdict(the_plan, events, reads, "exercised")
    assert [row["kind"] for row in exercised.anomalies] == ["step-never-came"]


SENTINEL = f"{SENTINEL_PREFIX}1"


def shown(**more):
    """Configurations of a node that has replayed the sentinel, and more, for the reader to keep."""
    return {f"client-metrics:{SENTINEL}": {"metrics": "1"}, **more}


async def is_running(_node):
    return NodeState.RUNNING


ONE_NODE = SimpleNamespace(
    nodes=("n1",), state=is_running, endpoint=lambda node, listener: (node, listener)
)


def read_one(final_read, *lists, within_s=30.0):
    """What the only node shows in the end, asked by a client that reads as is given."""
    client, cells = SimpleNamespace(final_read=final_read), Cells(kafka.KIND.cell, lists)
    return read_node(ONE_NODE, client, "n1", cells, (SENTINEL, 9), within_s)


def test_a_list_that_a_topic_holds_is_read_by_its_name_and_need_not_exist():
    name, asked = f"{LIST_PREFIX}l0", []

    async def final_read(peer, *, also):
        asked.append((also, peer.timeout_ms))
        held = {"follower.replication.throttled.replicas": "3:17,0:1"}
        return {"topics": {}, "configs": shown(**{f"topic:{name}": held})}

    read = run(read_one(final_read, name, f"{LIST_PREFIX}l1", within_s=10.0))
    assert read.configs == {"broker:": {SENTINEL: "1", name: "w3.17,w0.1"}}
    assert {also for also, _ in asked} == {((CLIENT_METRICS_RESOURCE, SENTINEL),)}


def test_a_sentinel_that_took_long_takes_nothing_from_the_time_of_the_reads():
    async def ask():
        return SimpleNamespace(leader="n1")

    async def alter_config(*_, **__):
        await asyncio.sleep(29)  # of 30: a starved machine
        return SimpleNamespace(type="ok")

    async def describe_quorum(*_, **__):
        return SimpleNamespace(high_watermark=9)

    async def final_read(*_, **__):
        await asyncio.sleep(4)
        return {"topics": {}, "configs": shown()}

    client = SimpleNamespace(
        alter_config=alter_config, describe_quorum=describe_quorum, final_read=final_read
    )
    cells = Cells(kafka.KIND.cell, ())
    read = run(read_all(ONE_NODE, client, SimpleNamespace(ask=ask), cells, 30.0))
    assert (sorted(read.reads), read.missing, read.sentinel) == (["n1"], {}, SENTINEL)


@pytest.mark.parametrize(
    ("shown_s", "read_s", "is_read"), [(0, 24, True), (29, 24, True), (31, 1, False)]
)
def test_a_node_that_shows_the_sentinel_in_time_is_read_again(shown_s, read_s, is_read):
    async def read_both():
        loop = asyncio.get_running_loop()
        begun_s = loop.time()

        async def final_read(*_, **__):
            shows = loop.time() >= begun_s + shown_s
            await asyncio.sleep(read_s if shows else 1)
            return {"topics": {}, "configs": shown() if shows else {}}

        return await read_one(final_read)

    read = run(read_both())
    assert isinstance(read, FinalRead) is is_read, read


def test_a_node_that_goes_on_to_change_is_not_read_for_ever():
    count = itertools.count()

    async def final_read(*_, **__):
        await asyncio.sleep(1)
        return {"topics": {str(next(count)): {}}, "configs": shown()}

    assert (run(read_one(final_read)), next(count)) == ("keeps changing", 29)


@pytest.mark.slow
def test_a_deposed_leader_that_answers_reads_is_caught():
    the_plan = plan(faults=["partition"])
    events, reads = play(the_plan, FakeCluster(stale_reads=True))
    assert verdict(the_plan, events, reads, "linearizable").status is Status.FAIL


@pytest.mark.slow
def test_a_run_goes_through_its_phases_and_leaves_nothing():
    cluster = FakeCluster()
    events, _ = play(plan(), cluster)
    assert [value["name"] for value in notes(events, "phase")] == [
        "start",
        "faults",
        "heal",
        "final-reads",
        "stop",
    ]
    assert cluster.downs == 1
    assert set(cluster.states.values()) == {NodeState.DEAD}


@pytest.mark.slow
def test_every_fault_is_injected_verified_and_healed():
    the_plan = plan()
    events, _ = play(the_plan, FakeCluster())
    for number, entry in enumerate(the_plan.schedule):
        mine = [v for v in notes(events, entry.fault) if v.get("entry") == number]
        assert [(v["phase"], v["verified"]) for v in mine] == [("inject", True), ("heal", True)]


@pytest.mark.slow
def test_faults_wait_for_a_cluster_that_takes_long_to_serve(monkeypatch):
    true = RegisterClient.invoke

    async def invoke(self, op):
        if asyncio.get_running_loop().time() < 100:
            return Completion(EventType.FAIL, error="not-sent")
        return await true(self, op)

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    monkeypatch.setattr(Register, "setup_operations", lambda _: (Op("read", "r0"),))
    events, _ = play(plan(faults=["kill"]), FakeCluster())
    served = next(event for event in events if event.type is EventType.OK and event.f == "read")
    hit = next(event for event in events if event.f == "kill")
    assert 100e9 < served.time_ns < hit.time_ns


def test_leader_changes_are_journaled_with_rising_epochs():
    events, _ = play(plan(), FakeCluster())
    epochs = [value["epoch"] for value in notes(events, "leader")]
    assert len(epochs) >= 2
    assert epochs == sorted(set(epochs))


@pytest.mark.slow
def test_where_roles_are_separate_each_node_is_asked_for_what_it_has_only(monkeypatch):
    def listeners(request, nodes):
        return (("CONTROLLER",),) * 3 + (("CLIENT",),) * (nodes - 3)

    kind = replace(kraft.KIND, listeners=listeners, reads_at="CLIENT", reads_lag=True)
    monkeypatch.setattr(Plan, "kind", kind)
    asked, cluster = set(), FakeCluster(5)

    class Network(FakeNetwork):
        def request(self, destination, *rest):
            asked.add((destination.node_id, destination.host))
            super().request(destination, *rest)

    cluster.client_network = lambda: Network(cluster)
    the_plan = plan(nodes=5, workload="topics", faults=["kill"])
    events, reads = play(the_plan, cluster)
    assert asked == {*[(n, "CONTROLLER") for n in (1, 2, 3)], *[(n, "CLIENT") for n in (4, 5)]}
    assert (sorted(reads.reads), reads.missing) == (["n4", "n5"], {})
    assert verdict(the_plan, events, reads, "durability").status is Status.PASS


@pytest.mark.slow
def test_a_node_that_dies_unasked_is_journaled_as_a_crash_once():
    cluster = FakeCluster(5, crash_at_s=5.0)
    events, reads = play(plan(nodes=5, faults=[]), cluster)
    (crash,) = notes(events, "crash")
    assert (crash["node"], crash["exit_code"]) == ("n5", -6)
    assert reads.missing == {"n5": "is not running"}


@pytest.mark.slow
def test_a_node_that_crashes_in_the_last_stop_is_journaled_as_well():
    class Crashing(FakeCluster):
        async def down(self):
            await super().down()
            self._crash("n2")

    events, _ = play(plan(), Crashing())
    assert [crash["node"] for crash in notes(events, "crash")] == ["n2"]


def test_nodes_that_faults_killed_are_no_crashes():
    events, _ = play(plan(faults=["kill", "restart"]), FakeCluster())
    assert notes(events, "crash") == []


@pytest.mark.slow
def test_one_plan_gives_one_history_in_virtual_time():
    assert play(plan(), FakeCluster())[0] == play(plan(), FakeCluster())[0]


@pytest.mark.slow
def test_refusals_of_nodes_that_do_not_lead_stay_few():
    events, _ = play(plan(faults=[]), FakeCluster())
    refused = sum(e.type is EventType.FAIL for e in events)
    done = sum(e.type is EventType.OK and isinstance(e.process, int) for e in events)
    assert done > 2000
    assert 50 < refused < 0.15 * done


def test_a_cluster_that_does_not_start_is_taken_down():
    cluster = FakeCluster(fail_up=True)
    with pytest.raises(BackendError, match="port 9092 is taken"):
        play(plan(), cluster)
    assert cluster.downs == 1


class Vanishing(FakeCluster):
    """Its place is lost at 12 s."""

    async def wait_until_lost(self):
        await asyncio.sleep(12)
        return "the engine is gone; start it"


@pytest.mark.slow
def test_a_run_whose_place_is_lost_ends_at_once_with_one_line_and_keeps_its_journal():
    cluster, journal = Vanishing(), Journal()

    async def main():
        with pytest.raises(BackendError, match=r"^the engine is gone"):
            await conducting(plan(), cluster, journal)
        return asyncio.get_running_loop().time()

    assert run(main()) < 20, "the plan's faults alone last 40 s"
    assert cluster.downs == 1
    assert [value["name"] for value in notes(journal.events, "phase")][-1] == "stop"
    assert len(pair(journal.events)) > 100


def _interrupt(after_s, times):
    cluster, journal = FakeCluster(), Journal()

    async def main():
        task = asyncio.ensure_future(conducting(plan(), cluster, journal))
        await asyncio.sleep(after_s)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    return cluster, journal.events


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("after_s", [0.05, 0.5, 5.0, 8.5, 12.0, 25.0, 40.5])
def test_an_interrupt_at_any_moment_leaves_nothing_running_or_cut(after_s, times):
    cluster, events = _interrupt(after_s, times)
    assert set(cluster.states.values()) == {NodeState.DEAD}
    assert cluster.links_cut() == frozenset()
    pair(events)


def test_some_workers_stay_with_one_node_and_most_follow_the_leader():
    pins = [pinned_to(plan(concurrency=8), worker) for worker in range(8)]
    assert pins == ["n1", "n2", "n3", "n1"] + [None] * 4
    assert pinned_to(plan(concurrency=1), 0) is None


def test_clients_of_a_script_stay_with_nodes_that_serve_them():
    settings = {"system": "apache-kafka", "system_options": {"roles": "controller,broker,broker"}}
    scripted = from_document(
        {**settings, "seed": 1, "schedule": [{"steps": [{"kind": "kill", "targets": "leader"}]}]}
    )
    pins = [scripted_clients.pinned_to(scripted, worker) for worker in range(15)]
    assert pins == ["n2", "n1", "n2", "n1", "n2", "n1", "n2"] + [None] * 8
    own = replace(scripted, system="kraft", system_options={}, concurrency=6)
    assert [scripted_clients.pinned_to(own, n) for n in range(4)] == ["n1", "n2", "n3", None]


N1, N2 = {"targets": "node:n1"}, {"targets": "node:n2"}


def on_a_paused_node(fault, parameters, *alternatives):
    """A schedule in which a fault comes that is illegal on the node at which it is aimed."""
    pause = {"at_s": 2, "fault": "pause", "parameters": N1, "for_s": 30}
    retried = {"at_s": 6, "fault": fault, "parameters": parameters, "for_s": 4}
    return plan(schedule=[pause, {**retried, "alternatives": list(alternatives)}], faults=[fault])


@pytest.mark.slow
def test_a_refused_fault_is_tried_again_at_another_target():
    the_plan = on_a_paused_node("pause", N1, N1, N2)
    events, reads = play(the_plan, FakeCluster())
    mine = [v for v in notes(events, "pause") if v.get("entry") == 1]
    assert [(v["phase"], v["targets"], v["verified"]) for v in mine] == [
        ("inject", [], False),
        ("heal", [], True),
        ("inject", [], False),
        ("heal", [], True),
        ("inject", ["n2"], True),
        ("heal", ["n2"], True),
    ]
    assert verdict(the_plan, events, reads, "exercised").status is Status.PASS


@pytest.mark.slow
def test_a_fault_that_bites_late_lasts_half_its_time_at_least():
    the_plan = on_a_paused_node("pause", *[N1] * 5, N2)
    events, _ = play(the_plan, FakeCluster())
    mine = [e for e in events if e.f == "pause" and e.value.get("targets") == ["n2"]]
    injected, healed = (event.time_ns for event in mine)
    assert healed - injected >= 2e9


class NoPauseBefore(FakeCluster):
    """A cluster in which no node can be paused before a time."""

    def __init__(self, from_s):
        super().__init__()
        self.from_s = from_s

    async def pause(self, node):
        if asyncio.get_running_loop().time() >= self.from_s:
            await super().pause(node)


def pauses(events):
    """When each injection and heal of pauses ended, in seconds, and how."""
    done = [e for e in events if e.f == "pause" and e.type is not EventType.INVOKE]
    return [(e.time_ns / 1e9, e.value["phase"], e.value["verified"]) for e in done]


@pytest.mark.slow
def test_a_kind_that_never_bit_gets_a_turn_after_the_schedule_while_clients_go_on():
    the_plan = plan(faults=["pause", "kill"])
    events, reads = play(the_plan, NoPauseBefore(from_s=the_plan.duration_s + 1))
    (injected_s, *injected), (healed_s, *healed) = pauses(events)[-2:]
    assert [injected, healed] == [["inject", True], ["heal", True]]
    assert injected_s > the_plan.duration_s
    assert healed_s - injected_s >= next(e.for_s for e in the_plan.schedule if e.fault == "pause")
    done_s = [e.time_ns / 1e9 for e in events if e.type is EventType.OK and e.process != "nemesis"]
    assert sum(injected_s < at_s < healed_s for at_s in done_s) > 50
    for check in ("exercised", "linearizable", "durability"):
        assert verdict(the_plan, events, reads, check).status is Status.PASS


@pytest.mark.slow
def test_a_kind_that_bit_once_gets_no_further_turn():
    the_plan = plan(faults=["pause", "kill"])
    events, _ = play(the_plan, NoPauseBefore(from_s=12))
    assert [verified for _, phase, verified in pauses(events) if phase == "inject"].count(True)
    assert all(at_s < the_plan.duration_s for at_s, *_ in pauses(events))


@pytest.mark.slow
def test_a_fault_that_never_bites_leaves_the_run_under_exercised():
    the_plan = plan(faults=["pause", "kill"])
    events, reads = play(the_plan, NoPauseBefore(from_s=10_000))
    result = verdict(the_plan, events, reads, "exercised")
    assert result.status is Status.UNDER_EXERCISED
    assert "the fault 'pause' never bit" in result.summary


@pytest.mark.slow
def test_turns_after_the_schedule_come_to_an_end():
    the_plan = plan(faults=["pause", "kill"])
    events, _ = play(the_plan, NoPauseBefore(from_s=10_000))
    late_s = [at_s for at_s, *_ in pauses(events) if at_s > the_plan.duration_s]
    assert late_s
    assert max(late_s) < the_plan.duration_s * (1 + LATER_SHARE) + RETRIES_S + QUIET_S + 1


@pytest.mark.slow
def test_a_scripted_fault_without_alternatives_is_not_tried_later():
    script = [{"at_s": 6, "fault": "pause", "parameters": N1, "for_s": 4}]
    the_plan = plan(schedule=script, faults=["pause"])
    events, reads = play(the_plan, NoPauseBefore(from_s=41))
    assert max(at_s for at_s, *_ in pauses(events)) < 20
    assert verdict(the_plan, events, reads, "exercised").status is Status.UNDER_EXERCISED


def test_a_heal_at_the_end_that_was_not_verified_is_journaled_as_info(monkeypatch):
    async def heal_all(_view):
        return tuple(Injection(drive.SWEEP, {}, ("n3",), verified=v) for v in (True, False))

    monkeypatch.setattr(drive, "heal_all", heal_all)
    events, _ = play(plan(faults=[], duration_s=2), FakeCluster())
    assert [e.type for e in events if e.f == drive.SWEEP] == [EventType.OK, EventType.INFO]


@pytest.mark.slow
def test_nodes_that_ended_late_are_started_before_the_next_fault(monkeypatch):
    late = iter([(), (Injection(drive.SWEEP, {}, ("n3",), verified=True),)])

    async def start_ended(_view):
        return next(late, ())

    monkeypatch.setattr(drive, "start_ended", start_ended)
    events, _ = play(plan(faults=["pause", "kill"]), FakeCluster())
    faults = [e for e in events if isinstance(e.value, dict) and e.value.get("phase")]
    began, started = faults[2:4]
    assert (began.type, began.value["phase"]) == (EventType.INVOKE, "heal")
    assert (started.f, started.value["phase"]) == (drive.SWEEP, "heal")
    assert started.value["targets"] == ["n3"]


@pytest.mark.slow
def test_a_fault_at_the_leader_waits_for_the_end_of_an_election(monkeypatch):
    script = [{"at_s": 6, "fault": "pause", "parameters": {"targets": "leader"}, "for_s": 4}]
    leader, elections = RunView.leader, iter([True, True])

    async def nobody_leads_at_first(view):
        return None if next(elections, False) else await leader(view)

    monkeypatch.setattr(RunView, "leader", nobody_leads_at_first)
    the_plan = plan(schedule=script, faults=["pause"])
    events, reads = play(the_plan, FakeCluster())
    attempts = [v for v in notes(events, "pause") if v["phase"] == "inject"]
    assert [v["verified"] for v in attempts] == [False, False, True]
    assert verdict(the_plan, events, reads, "exercised").status is Status.PASS


def fail_at(monkeypatch, target, name, at_s, message):
    """Let a method raise from a time on."""
    before = getattr(target, name)

    async def broken(self, *arguments, **options):
        if asyncio.get_running_loop().time() >= at_s:
            raise ZeroDivisionError(message)
        return await before(self, *arguments, **options)

    monkeypatch.setattr(target, name, broken)


def play_until_it_fails(cluster):
    """How a run ends that the harness cannot finish, and when."""
    ended_s = []

    async def main():
        try:
            await conducting(plan(), cluster, Journal())
        finally:
            ended_s.append(asyncio.get_running_loop().time())

    with pytest.raises(HarnessError) as caught:
        run(main())
    return caught.value, ended_s[0]


def test_a_dead_observer_ends_the_run_at_once(monkeypatch):
    fail_at(monkeypatch, Observer, "_ask_node", 10, "oops")
    cluster = FakeCluster()
    error, ended_s = play_until_it_fails(cluster)
    assert str(error) == "the observer died: ZeroDivisionError: oops"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert 10 <= ended_s < 12
    assert cluster.downs == 1


@pytest.mark.slow
def test_a_dead_observer_does_not_hide_the_error_that_came_first(monkeypatch):
    cluster = FakeCluster()
    before = RegisterClient.invoke

    async def invoke(client, op):
        if asyncio.get_running_loop().time() >= 10:
            raise KeyError("first")
        return await before(client, op)

    async def watch(observer):
        try:
            await asyncio.sleep(1000)
        finally:
            raise ZeroDivisionError("second")

    monkeypatch.setattr(RegisterClient, "invoke", invoke)
    monkeypatch.setattr(Observer, "watch", watch)
    error, _ = play_until_it_fails(cluster)
    message = str(error)
    assert message.index("KeyError: 'first'") < message.index(
        "the observer died: ZeroDivisionError: second"
    )
    assert isinstance(error.__cause__, HarnessError)
    assert cluster.downs == 1


NONSENSE = (
    None,
    SimpleNamespace(),
    SimpleNamespace(error_code=ErrorCode.none, topics=None, results=None, responses=3, brokers=()),
    SimpleNamespace(error_code=None, topics=(None,), results=(None, 1), responses=(object(),)),
    Failure.WRONG_ANSWER,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload", sorted(name for name, kind in WORKLOADS.items() if kind.speaks_kafka)
)
def test_nodes_that_answer_nonsense_end_no_run_and_keep_it_from_passing(workload, monkeypatch):
    before, answers = FakeNetwork._reply, itertools.count()

    def reply(network, node, message):
        number = next(answers)
        if number % 7 == 0:
            return NONSENSE[number // 7 % len(NONSENSE)]
        try:
            return before(network, node, message)
        except AssertionError:  # what this model of a quorum does not know
            return SimpleNamespace(error_code=ErrorCode.unknown_server_error)

    monkeypatch.setattr(FakeNetwork, "_reply", reply)
    kafkas = {"system": "apache-kafka", "system_options": {"version": "4.3.1"}}
    system = kafkas if WORKLOADS[workload].needs_coordinators else {}
    the_plan = plan(workload=workload, duration_s=15, faults=[], **system)
    events, reads = play(the_plan, FakeCluster())
    result = verdict(the_plan, events, reads, "answers")
    assert result.status is Status.UNKNOWN
    assert result.statistics["wrong_answers"] > 20
    assert any(
        "DescribeQuorumRequest" in value["explanation"] for value in notes(events, "wrong-answer")
    )
