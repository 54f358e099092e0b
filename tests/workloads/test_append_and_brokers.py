"""Workloads `append` and `brokers`: what they ask for, what they conclude, and what they find."""

import itertools

import pytest

from checkers.history import EventType, pair
from checkers.verdict import Status
from cluster import mutants
from cluster.client.admin_client import TOPIC_RESOURCE
from cluster.client.caller import Outcome
from cluster.systems.kafka import kind as kafka
from porcupine_py.models import model_named
from porcupine_py.search.dispatch import dispatch
from porcupine_py.search.outcome import Budget
from tests.harness.sim.quorums import campaign
from tests.workloads.test_workloads import ops, perform
from workloads.append import elements
from workloads.base import Op
from workloads.registry import workload_named

PLAN = {
    "node_settings": {"broker.session.timeout.ms": 1500, "broker.heartbeat.interval.ms": 400},
    "faults": ["kill", "partition"],
}


THROTTLED = "follower.replication.throttled.replicas"


def test_a_list_is_read_as_its_elements():
    done, calls, _ = perform("append", Op("read", "l0"), Outcome("ok", "0:1,3:0"))
    assert (done[0].type, done[0].value) == (EventType.OK, ["w0.1", "w3.0"])
    assert calls[0][0] == "read_config"
    assert (elements(""), elements("a")) == ([], ["a"])


def test_an_element_is_appended_to_the_config_of_its_list():
    done, calls, _ = perform("append", Op("append", "l0", "w0.1"), Outcome("ok", "0:1"))
    assert (done[0].type, done[0].value) == (EventType.OK, "w0.1")
    name, _, resource, config, operation, value, _ = calls[0]
    assert (name, resource) == ("alter_config", (TOPIC_RESOURCE, "kraftprobe.list.l0"))
    assert (config, operation, value) == (THROTTLED, "append", "0:1")


def test_a_list_of_kafka_is_a_topics_throttled_replicas_and_reads_go_to_brokers():
    done, calls, _ = perform("append", Op("append", "l0", "w3.17"), Outcome("ok"), kind=kafka.KIND)
    assert (done[0].type, done[0].value) == (EventType.OK, "w3.17")
    name, endpoint, resource, config, operation, value, _ = calls[0]
    assert (name, endpoint.host, operation, value) == (
        "alter_config",
        "CONTROLLER",
        "append",
        "3:17",
    )
    assert resource == (TOPIC_RESOURCE, "kraftprobe.list.l0")
    assert config == THROTTLED
    done, calls, _ = perform("append", Op("read", "l0"), Outcome("ok", "3:17,0:1"), kind=kafka.KIND)
    assert (done[0].value, calls[0][1].host) == (["w3.17", "w0.1"], "CLIENT")


def test_a_list_without_its_topic_is_empty_and_the_topic_is_created_by_an_append():
    missing = Outcome("fail", error="unknown_topic_or_partition")
    done, _, _ = perform("append", Op("read", "l0"), missing, kind=kafka.KIND)
    assert (done[0].type, done[0].value) == (EventType.OK, [])
    done, calls, _ = perform(
        "append", Op("append", "l0", "w0.1"), missing, Outcome("info"), kind=kafka.KIND
    )
    assert (done[0].type, [call[0] for call in calls]) == (
        EventType.FAIL,
        ["alter_config", "create_topic"],
    )


def test_no_element_is_appended_twice():
    appended = [op.value for worker in range(6) for op in ops("append", worker) if op.f == "append"]
    assert len(set(appended)) == len(appended) > 100


def test_a_broker_that_knows_no_epoch_sends_nothing():
    value = {"incarnation": "w0.0", "behind": False}
    done, calls, _ = perform("brokers", Op("heartbeat", "1", value))
    assert (done[0].type, done[0].error) == (EventType.FAIL, "not-registered")
    assert calls == []


def test_workers_come_to_the_brokers_that_others_left_and_speak_for_old_incarnations():
    streams = [ops("brokers", worker, seed=worker, count=2_000) for worker in (0, 1)]
    stage = workload_named("brokers", {}).stage
    at = [
        {op.key for op in stream[k * stage : (k + 1) * stage]}
        for stream, k in zip(streams, (1, 0), strict=True)
    ]
    assert at[0] == at[1]
    spoken = [
        (op.key, int(op.value["incarnation"].split(".")[1])) for op in streams[0] if op.f != "read"
    ]
    went_back = [
        1
        for (key, number), (other, after) in itertools.pairwise(sorted(spoken, key=lambda s: s[0]))
        if key == other and after < number
    ]
    assert len(went_back) > 20


def verdict(name, seed=5, **plan):
    """Run a campaign in simulated time; what the workload's own check says of its history."""
    _, monitor, events, _ = campaign(seed=seed, workload=name, **{**PLAN, **plan})
    assert monitor.violations == []
    spec, *_ = workload_named(name, {}).checks()
    model = model_named(spec.options["model"])
    parts = model.partition(
        [operation for operation in pair(events) if operation.process != "nemesis"]
    )
    assert len(parts) == 8
    assert all(len(part) > 40 for part in parts), "every key was used"
    statuses = [dispatch(part, model.prepare(part), None, Budget())[1].status for part in parts]
    if Status.FAIL in statuses:
        return Status.FAIL
    return Status.PASS if set(statuses) == {Status.PASS} else Status.UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), [("append", "M42"), ("brokers", "M41")])
def test_the_true_node_passes_and_the_mutant_is_found(name, mutant):
    assert verdict(name) is Status.PASS
    with mutants.apply_mutant(mutant):
        assert any(verdict(name, seed) is Status.FAIL for seed in range(5, 10))
