import asyncio
import itertools
from random import Random

import pytest

from checkers.history import EventType
from checkers.registry import find_check
from cluster.client.caller import Outcome
from cluster.node.ports import Endpoint
from cluster.systems import kraft
from tests.client_context import client_context
from workloads.base import LeaderTracker, Op, Role
from workloads.registry import WORKLOADS, WorkloadError, workload_named

NODES = ("n1", "n2", "n3")


def ops(name, worker=0, seed=1, role=Role.MIXED, count=400, **options):
    workload = workload_named(name, options)
    return list(itertools.islice(workload.operations(worker, Random(seed), role), count))


class FakeClient:
    """Records each call and answers with what the test set."""

    def __init__(self, *outcomes):
        self.calls = []
        self._outcomes = iter(outcomes)

    def __getattr__(self, name):
        async def call(peer, *arguments, **named):
            self.calls.append((name, peer.endpoint, *arguments, named))
            return next(self._outcomes)

        return call


def everywhere(listener):
    return NODES


def perform(
    name,
    op,
    *outcomes,
    pinned_to=None,
    times=1,
    kind=kraft.KIND,
    nodes_at=everywhere,
    reads_at=None,
):
    """Let one client perform an operation: the completions, the calls and the tracker."""
    client, tracker = FakeClient(*outcomes), LeaderTracker(nodes_at("CONTROLLER"))
    context = client_context(
        client=client,
        endpoint=lambda node, listener: Endpoint(int(node[1:]), listener, 1),
        nodes_at=nodes_at,
        leader=tracker,
        worker=0,
        process=0,
        pinned_to=pinned_to,
        timeout_ms=100.0,
        cell=kind.cell,
        reads_at=reads_at or kind.reads_at,
        reads_lag=kind.reads_lag,
    )
    performer = workload_named(name, {}).client(context)

    async def main():
        return [await performer.invoke(op) for _ in range(times)]

    return asyncio.run(main()), client.calls, tracker


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_stream_is_a_function_of_its_seed(name):
    assert ops(name, seed=1) == ops(name, seed=1)


@pytest.mark.parametrize("name", ["register", "topics"])
def test_seeds_give_different_streams(name):
    assert ops(name, seed=1) != ops(name, seed=2)


def test_values_of_registers_are_unique_over_all_workers():
    values = [op.value for worker in range(5) for op in ops("register", worker) if op.f == "write"]
    assert len(values) > 500
    assert len(set(values)) == len(values)


def test_elements_of_sets_are_unique_over_all_workers():
    names = [op.key for worker in range(5) for op in ops("set", worker)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "role", "expected"),
    [
        ("register", Role.MIXED, {"read", "write"}),
        ("register", Role.READER, {"read"}),
        ("register", Role.WRITER, {"write"}),
        ("topics", Role.MIXED, {"create", "delete", "describe"}),
        ("topics", Role.READER, {"describe"}),
        ("topics", Role.WRITER, {"create", "delete"}),
        ("set", Role.READER, {"add"}),
    ],
)
def test_roles_say_which_worker_reads_and_which_writes(name, role, expected):
    assert {op.f for op in ops(name, role=role)} == expected


def test_every_register_is_used_and_read_in_the_end():
    used = {op.key for op in ops("register", keys=12)}
    final = [op.key for op in workload_named("register", {"keys": 12}).final_operations()]
    assert used == set(final)
    assert len(final) == 12


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_checks_of_a_workload_exist(name):
    for reads_lag in (False, True):
        specs = workload_named(name, {}).checks(reads_lag=reads_lag)
        assert specs
        for spec in specs:
            assert find_check(spec).name == spec.name


def test_unknown_names_are_reported_with_the_nearest():
    with pytest.raises(WorkloadError, match="unknown workload 'topic'; did you mean 'topics'"):
        workload_named("topic", {})
    with pytest.raises(WorkloadError, match="did you mean 'names'"):
        workload_named("topics", {"name": 3})


def test_a_write_goes_to_the_controller_listener_under_its_config_name():
    done, calls, _ = perform("register", Op("write", "k1", "w0.0"), Outcome("ok", "w0.0"))
    ((method, endpoint, resource, config, how, value, _),) = calls
    assert (method, endpoint.host, resource) == ("alter_config", "CONTROLLER", (4, ""))
    assert (config, how, value) == ("kraftprobe.register.k1", "set", "w0.0")
    assert (done[0].type, done[0].value, done[0].node) == (EventType.OK, "w0.0", "n1")


def test_a_read_of_nothing_is_ok_with_none():
    done, _, _ = perform("register", Op("read", "k1"), Outcome("ok", None))
    assert (done[0].type, done[0].value) == (EventType.OK, None)


def test_a_describe_goes_to_the_broker_listener():
    _, calls, _ = perform("topics", Op("describe", "t1"), Outcome("ok", None))
    assert (calls[0][0], calls[0][1].host) == ("describe_topic", "CLIENT")


def test_a_created_topic_returns_its_id():
    outcome = Outcome("ok", {"id": "x", "partitions": 2})
    done, _, _ = perform("topics", Op("create", "t1", {"partitions": 2}), outcome)
    assert done[0].value == {"id": "x", "partitions": 2}


@pytest.mark.parametrize(
    "outcome", [Outcome("fail", error="not_controller"), Outcome("info", error="timed-out")]
)
def test_a_client_that_follows_the_leader_asks_another_node_after_a_refusal_or_silence(outcome):
    done, _, _ = perform("register", Op("read", "k1"), outcome, outcome, outcome, times=3)
    assert [completion.node for completion in done] == ["n1", "n2", "n3"]


def test_a_client_stays_with_a_leader_that_refuses_for_another_reason():
    taken = Outcome("fail", error="topic_already_exists")
    done, _, _ = perform("topics", Op("create", "t1", {"partitions": 1}), taken, taken, times=2)
    assert [completion.node for completion in done] == ["n1", "n1"]


def test_a_pinned_client_stays_with_its_node_and_leaves_the_belief_alone():
    refused = Outcome("fail", error="not_controller")
    done, _, tracker = perform(
        "register", Op("read", "k1"), refused, refused, pinned_to="n3", times=2
    )
    assert [completion.node for completion in done] == ["n3", "n3"]
    assert tracker.guess == "n1"


def test_the_tracker_keeps_the_leader_of_the_latest_epoch_only():
    tracker = LeaderTracker(NODES)
    tracker.learn("n3", 5)
    tracker.learn("n2", 4)
    assert (tracker.guess, tracker.epoch) == ("n3", 5)
    tracker.suspect("n2")
    assert tracker.guess == "n3"
    tracker.suspect("n3")
    assert tracker.guess == "n1"


def separate(listener):
    return ("n1", "n2") if listener == "CONTROLLER" else ("n4", "n5")


def nodes_asked(name, op, *, pinned_to=None):
    answers = [Outcome("fail", error="not_controller")] * 4
    done, calls, _ = perform(
        name, op, *answers, times=4, pinned_to=pinned_to, nodes_at=separate, reads_at="CLIENT"
    )
    assert {completion.node for completion in done} == {f"n{call[1].node_id}" for call in calls}
    return [completion.node for completion in done]


def test_where_roles_are_separate_reads_go_to_all_brokers_and_writes_to_the_leader():
    for read in (
        ("register", Op("read", "k1")),
        ("append", Op("read", "l1")),
        ("topics", Op("describe", "t1")),
        ("partitions", Op("read", "p1")),
        ("brokers", Op("read", "1")),
    ):
        assert nodes_asked(*read) == ["n4", "n5", "n4", "n5"]
        assert nodes_asked(*read, pinned_to="n5") == ["n5"] * 4
    write = ("register", Op("write", "k1", "w0.0"))
    assert nodes_asked(*write) == ["n1", "n2", "n1", "n2"], "each refusal is a reason to suspect"
    assert nodes_asked(*write, pinned_to="n2") == ["n2"] * 4
    assert nodes_asked("set", Op("add", "s1", {"partitions": 1}), pinned_to="n4") == nodes_asked(
        *write
    ), "a broker does not take what is written"
