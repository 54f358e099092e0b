"""What a simulated world does to messages, disks, clocks and processes."""

from types import SimpleNamespace

import pytest

from cluster.backends.base import BackendError, NodeState
from cluster.backends.sim.links import Hold
from cluster.backends.sim.mesh import Mesh
from cluster.backends.sim.scheduler import BusyLoopError, Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.backends.sim.world import EXIT_BROKEN
from cluster.node.kraft.messages import DescribeQuorumRequest, VoteRequest
from cluster.node.ports import Failure
from cluster.node.protocol.data_messages import FetchRequest
from cluster.node.protocol.messages import ApiVersionsRequest
from cluster.schemas import Schema
from harness.errors import PlanError
from tests.harness.sim.hooks import Nth, at_event
from tests.harness.sim.quorums import Quorum, campaign


def others(quorum, name):
    return [other for other in quorum.world.names if other != name]


def ask(quorum, name, message=None, timeout_ms=500):
    """Send a harness client's request; the list that gets its reply."""
    replies, world = [], quorum.world
    message = message or DescribeQuorumRequest()
    client = world.mesh.new_client()
    world.mesh.request(client, None, world.endpoint(name), message, timeout_ms, replies.append)
    return replies


# -- failed requests ----------------------------------------------------------------------------


def test_a_dead_node_refuses_and_nothing_was_sent():
    quorum = Quorum()
    quorum.elect()
    quorum.world.kill("n1")
    replies = ask(quorum, "n1")
    quorum.run(10)
    assert replies == [Failure.NOT_SENT]


def test_a_node_that_dies_with_a_request_disconnects():
    quorum = Quorum(client_latency_ms=(5, 5))
    quorum.elect()
    replies = ask(quorum, "n1")
    quorum.run(1)
    quorum.world.kill("n1")
    quorum.run(20)
    assert replies == [Failure.DISCONNECTED]


def test_a_stopped_node_answers_once_it_goes_on():
    quorum = Quorum()
    quorum.elect()
    quorum.world.pause("n1")
    replies = ask(quorum, "n1", timeout_ms=5_000)
    quorum.run(1_000)
    assert replies == []
    quorum.world.resume("n1")
    quorum.run(10)
    assert len(replies) == 1
    assert not isinstance(replies[0], Failure)


def test_a_listener_answers_api_versions():
    quorum = Quorum()
    quorum.elect()
    request = ApiVersionsRequest(client_software_name="k", client_software_version="1")
    replies = ask(quorum, "n1", request)
    quorum.run(10)
    assert any(key.api_key == 18 for key in replies[0].api_keys)


# -- links --------------------------------------------------------------------------------------


def test_a_link_cut_one_way_loses_only_what_goes_that_way():
    quorum = Quorum(cut_keeps=0.0)
    leader = quorum.elect()
    follower, third = others(quorum, leader)
    quorum.world.mesh.cut(leader, follower)
    quorum.run(5_000)
    assert quorum.world.mesh.link(leader, follower).passed == 0
    assert quorum.world.mesh.link(follower, leader).passed > 0, "it still asks"
    # PreVote keeps the node that hears nothing from deposing the leader of the others.
    assert quorum.leader() == leader
    offset = quorum.append(leader)
    quorum.run(500)
    assert quorum.node(third).raft.high_watermark > offset
    assert quorum.node(follower).raft.high_watermark <= offset


def test_what_a_cut_link_keeps_flows_when_it_is_restored():
    quorum = Quorum(cut_keeps=1.0)
    leader = quorum.elect()
    follower = others(quorum, leader)[0]
    mesh = quorum.world.mesh
    mesh.cut(follower, leader)
    quorum.run(300)
    kept = len(mesh.link(follower, leader).kept)
    assert kept > 0
    mesh.restore(follower, leader)
    assert mesh.link(follower, leader).kept == []
    assert mesh.link(follower, leader).passed == kept


class HoldOfElections(Hold):
    def wants(self, source, target, message):
        return super().wants(source, target, message) and not message.pre_vote


def test_a_vote_held_over_a_restart_reaches_the_next_process():
    quorum = Quorum(seed=2)
    world = quorum.world
    leader = quorum.elect()
    third = others(quorum, leader)[1]
    votes = frozenset({"VoteRequest"})
    rest = others(quorum, third)
    hold = HoldOfElections(frozenset((other, third) for other in rest), votes)
    world.mesh.add_hold(hold)
    world.kill(leader)
    world.mesh.add_hold(Hold(frozenset((third, other) for other in rest), votes))
    assert quorum.scheduler.run_until(lambda: hold.held, 20_000)
    assert isinstance(hold.held[0].message, VoteRequest)
    world.kill(third)
    world.start(third)
    quorum.run(100)
    incarnation = world.nodes[third].incarnation
    for transit in hold.held:
        transit.deliver_late()
    quorum.run(100)
    votes = [line for line in world.nodes[third].trace if line[2] == "vote"]
    assert votes[-1][1] == incarnation == 1
    assert votes[-1][3]["granted"]
    assert quorum.monitor.violations == []


def test_a_cut_link_carries_nothing_between_brokers_either():
    quorum = Quorum(cut_keeps=0)
    quorum.elect()
    mesh, port = quorum.world.mesh, quorum.world.endpoint("n2", "CLIENT")
    request = ApiVersionsRequest(client_software_name="k", client_software_version="1")
    replies = []
    for cut in (("n1", "n2"), ("n2", "n1"), None):
        if cut is not None:
            mesh.cut(*cut)
        mesh.request("n1", mesh.hosts["n1"], port, request, 100, replies.append)
        quorum.run(200)
        if cut is not None:
            mesh.restore(*cut)
        quorum.run(200)
    unheard, unanswered, answered = replies
    assert (unheard, unanswered) == (Failure.TIMED_OUT, Failure.TIMED_OUT)
    assert not isinstance(answered, Failure)


def test_a_fetch_between_brokers_is_no_voters_fetch():
    fetch = FetchRequest(3, -1, 500, 1, 1000, ())
    links = frozenset({("n1", "n2")})
    for kind, is_wanted in (("FetchRequest", False), ("data_messages.FetchRequest", True)):
        assert Hold(links, frozenset({kind})).wants("n1", "n2", fetch) is is_wanted
    assert Hold(links, frozenset()).wants("n1", "n2", fetch)


def test_a_link_knows_its_reverse():
    mesh = Mesh(Scheduler(), 1, SimSettings())

    there = mesh.link("n1", "n2")
    assert there.back is mesh.link("n2", "n1")
    assert there.back.back is there is mesh.link("n1", "n2")
    alone = mesh.link("n1", "n1")  # a broker asks the controller of its own node
    assert alone.back is alone is mesh.link("n1", "n1")


def test_links_draw_from_streams_of_their_own():
    """Removing a link does not change the draws of another."""

    def latencies(first):
        quorum = Quorum()
        if first:
            quorum.world.mesh.link("n1", "n2").latency()
        return [quorum.world.mesh.link("n2", "n3").latency() for _ in range(5)]

    assert latencies(True) == latencies(False)


@pytest.mark.slow
def test_loss_and_duplication_leave_clients_alone():
    settings = SimSettings(loss=0.2, duplication=0.2)
    backend, monitor, _, reads = campaign(faults=[], settings=settings, duration_s=10)
    assert monitor.violations == []
    assert sorted(reads.reads) == ["n1", "n2", "n3"]
    mesh = backend.world.mesh
    assert all(link.loss == 0 for link in (mesh.link("c1", "n1"), mesh.link("n1", "c1")))


# -- processes and their disks ------------------------------------------------------------------


@pytest.mark.parametrize("nth", range(1, 9))
def test_a_node_killed_between_any_two_disk_operations_comes_back_sound(nth):
    quorum = Quorum(seed=nth)
    world = quorum.world
    leader = quorum.elect()
    victim = others(quorum, leader)[0]
    world.nodes[victim].disk.on_operation = Nth(nth, lambda: world.kill(victim))
    for _ in range(5):
        quorum.append(leader)
        quorum.run(50)
    assert world.nodes[victim].state is NodeState.DEAD, "it was hit"
    world.start(victim)
    offset = quorum.append(quorum.elect())
    quorum.run(1_000)
    assert quorum.node(victim).raft.high_watermark > offset
    assert quorum.monitor.violations == []
    assert world.deaths == []


def test_a_node_can_be_killed_at_the_instruction_that_traces_its_vote():
    quorum = Quorum(seed=3)
    world = quorum.world
    killed = []

    def kill():
        voter = max(world.names, key=lambda name: len(world.nodes[name].trace))
        killed.append(voter)
        world.kill(voter)

    at_event(world, "vote", kill, granted=True, pre_vote=False)
    quorum.elect()
    assert len(killed) == 1
    assert quorum.monitor.violations == []


def test_what_a_killed_process_still_does_stays_inside_it():
    quorum = Quorum()
    world = quorum.world
    leader = quorum.elect()
    process = world.nodes[leader].process
    world.kill(leader)
    traced = len(world.nodes[leader].trace)
    process.trace("claim", epoch=99, offset=0)
    world.nodes[leader].disk.append("meta.properties", b"x")
    assert len(world.nodes[leader].trace) == traced
    world.start(leader)
    quorum.run(3_000)
    assert world.deaths == []


def test_a_failed_disk_ends_the_node():
    quorum = Quorum()
    world = quorum.world
    leader = quorum.elect()
    world.nodes[leader].disk.fail(OSError(5, "Input/output error"))
    quorum.append(leader)
    quorum.run(100)
    assert world.nodes[leader].state is NodeState.DEAD
    assert [(death.node, death.exit_code) for death in world.deaths] == [(leader, EXIT_BROKEN)]
    world.start(leader)
    quorum.run(5_000)
    assert world.nodes[leader].state is NodeState.RUNNING
    assert quorum.monitor.violations == []


def test_a_running_node_cannot_be_started():
    quorum = Quorum()
    quorum.elect()
    with pytest.raises(BackendError, match=r"n1 cannot start: .* running"):
        quorum.world.start("n1")


def test_a_graceful_stop_hands_over_and_loses_nothing():
    quorum = Quorum()
    world = quorum.world
    leader = quorum.elect()
    offset = quorum.append(leader, 5)
    quorum.run(100)
    done = []
    world.stop(leader, lambda: done.append(quorum.scheduler.now_ms))
    quorum.run(5_000)
    assert done
    assert world.nodes[leader].state is NodeState.DEAD
    assert quorum.leader() not in (None, leader)
    assert quorum.monitor.quorum.durable_end(leader) > offset


# -- clocks and settings ------------------------------------------------------------------------


def test_clocks_drift_and_skew_by_what_the_seed_says():
    quorum = Quorum(drift_ppm=1000, skew_ms=500)
    clocks = [node.clock for node in quorum.world.nodes.values()]
    assert len({clock.rate for clock in clocks}) == 3
    assert all(abs(clock.rate - 1) <= 1e-3 for clock in clocks)
    assert max(c.wall_ms() for c in clocks) - min(c.wall_ms() for c in clocks) <= 1000


@pytest.mark.slow
def test_a_clock_that_changes_its_rate_does_not_jump():
    quorum = Quorum()
    quorum.run(1_000)
    clock = quorum.world.nodes["n1"].clock
    before, wall = clock.monotonic_ms(), clock.wall_ms()
    clock.set_rate(2.0)
    assert clock.monotonic_ms() == pytest.approx(before)
    clock.step_wall(-3_000)
    assert clock.wall_ms() == pytest.approx(wall - 3_000, abs=2)
    quorum.run(100)
    assert clock.monotonic_ms() - before == pytest.approx(200)


def test_settings_survive_json_and_refuse_what_they_do_not_know():
    settings = SimSettings(latency_ms=(1, 2), loss=0.5)
    schema = Schema(SimSettings, PlanError)
    assert schema.read(settings.to_json()) == settings
    with pytest.raises(PlanError, match="latency_ms"):
        schema.read({"latency": 1})
    with pytest.raises(PlanError, match="least is above"):
        schema.read({"latency_ms": (3, 2)})


def test_time_that_stands_still_is_an_error():
    scheduler = Scheduler()

    def again():
        scheduler.call_later(0, again)

    again()
    with pytest.raises(BusyLoopError):
        scheduler.run_for(1)


def test_time_ends_at_its_bound_although_the_next_callback_belongs_to_a_stopped_process():
    scheduler, ran = Scheduler(), []
    stopped = SimpleNamespace(runs=False, alive=True, backlog=[], die=None)
    scheduler.call_later(10.0, lambda: ran.append("stopped"), stopped)
    scheduler.call_later(1e9, lambda: ran.append("much later"))
    scheduler.run_for(100.0)
    assert not scheduler.run_until(lambda: bool(ran), 100.0)
    assert ran == []
    assert len(stopped.backlog) == 1
    assert scheduler.now_ms < 1e9


@pytest.mark.parametrize("delay_ms", [20.0, 600.0], ids=["short", "in a line"])
def test_a_timer_that_was_due_while_its_process_was_stopped_can_still_be_cancelled(delay_ms):
    scheduler, ran = Scheduler(), []
    stopped = SimpleNamespace(runs=False, alive=True, backlog=[], die=None)
    scheduler.call_later(10.0, lambda: (ran.append("first"), timer.cancel()), stopped)
    timer = scheduler.call_later(delay_ms, lambda: ran.append("cancelled"), stopped)
    scheduler.call_later(delay_ms, lambda: ran.append("last"), stopped)
    scheduler.run_for(1_000.0)
    stopped.runs = True
    for entry in stopped.backlog:
        scheduler.requeue(entry)
    scheduler.run_for(1.0)
    assert ran == ["first", "last"]
