"""What nodes answer: each invariant broken, and the closest right answers."""

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace

import pytest

from checkers.invariants.answers import ANSWERS, BY_CLIENTS, Preferred
from cluster.backends.sim.process import read_from
from cluster.mutants import apply_mutant
from cluster.node.broker.serving import fetch, offsets
from cluster.node.broker.serving.offsets import offsets_for_leader_epochs
from cluster.node.controller.apis.write_apis import error_response
from cluster.node.errors import ErrorCode
from cluster.node.log.types import OffsetAndEpoch
from cluster.node.protocol.data_messages import OffsetForLeaderEpochRequest
from cluster.node.protocol.messages import UpdateFeaturesRequest
from harness.plan.document import from_document
from harness.sim.requests.quorum_polls import error_of
from harness.sim.requests.right_quorum import question, why_wrong
from harness.sim.requests.wrong_quorum import WRONG as WRONG_OF_QUORUMS
from harness.sim.runner import run
from harness.sim.sights.answers import AnswerWatch
from tests.checkers.invariants.watching import QUIET, broken, broken_by, found_in
from tests.cluster.node.kraft.dynamic import add_request, dynamic_world, send, voter_ids
from workloads.data.wrong_requests import WRONG, errors_of, has_rows

IDLE = SimpleNamespace(call_later=lambda *_: None)
"""A scheduler of a world in which no time passes."""


def partition(leader, **fields):
    """An answer to Metadata about t-0, as three brokers are there, or as is given."""
    every = {"isr": [1, 2, 3], "brokers": [1, 2, 3], "replicas": [1, 2, 3]}
    of = {"name": "t-0", "topic_id": "A", "index": 0, "leader_epoch": 4}
    return {**every, **of, "leader": leader, **fields}


@pytest.mark.parametrize(
    ("levels", "is_alone", "found"),
    [([0, 0], True, ["feature-kept"]), ([1, 0], True, []), ([0, 1], True, []), ([0, 0], False, [])],
    ids=["the old one", "appended", "committed, and not led any more", "another one followed"],
)
def test_a_level_that_is_finalized_is_in_the_metadata(levels, is_alone, found):
    answer = {"feature": "share.version", "level": 1, "found": levels, "is_alone": is_alone}
    assert broken("feature-answer", **answer) == found


def test_an_update_that_others_overlapped_is_not_alone_even_when_they_are_answered_first():
    mesh = SimpleNamespace(on_serve=defaultdict(list), on_reply=defaultdict(list))
    state = SimpleNamespace(features={})
    controller = SimpleNamespace(newest_state=lambda: state, image=SimpleNamespace(state=state))
    process = SimpleNamespace(node=SimpleNamespace(controller=controller))
    shown = []
    watcher = SimpleNamespace(take=lambda _node, _event, fields: shown.append(fields["is_alone"]))
    nodes = {"n1": SimpleNamespace(process=process)}
    AnswerWatch(SimpleNamespace(nodes=nodes, mesh=mesh, scheduler=IDLE), watcher)
    change = SimpleNamespace(feature="share.version", max_version_level=1)
    updates = [SimpleNamespace(feature_updates=[change], validate_only=False) for _ in range(3)]
    answer = SimpleNamespace(error_code=ErrorCode.none)
    (hear,), (look, _) = mesh.on_serve[UpdateFeaturesRequest], mesh.on_reply[UpdateFeaturesRequest]
    for update in updates[:2]:
        hear("n1", update)
    for update in reversed(updates[:2]):
        look("n1", update, answer)
    hear("n1", updates[2])
    look("n1", updates[2], answer)
    assert shown == [False, False, True]


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ("invalid_record", ["batches-taken"]),
        ("unknown_server_error", ["batches-taken"]),
        ("message_too_large", ["batches-taken"]),
        ("none", []),
        ("not_leader_or_follower", []),
        ("out_of_order_sequence_number", []),
        ("invalid_timestamp", ["batches-taken"]),
    ],
)
def test_a_leader_takes_a_right_batch(error, found):
    assert broken("batch-answer", partition="t-0", error=error) == found


@pytest.mark.parametrize("error", ["not_leader_or_follower", "request_timed_out", "none"])
def test_a_broker_that_leads_says_so(error):
    found = ["leads-and-takes"] if error == "not_leader_or_follower" else []
    asked = {"partition": "t-0", "request": "Fetch", "epoch": 3}
    assert broken("lead-answer", error=error, **asked) == found


@pytest.mark.slow
@pytest.mark.parametrize("of", [fetch._Delayed, offsets], ids=["Fetch", "ListOffsets"])
def test_worlds_find_a_leader_that_refuses_consumers(of, monkeypatch):
    right = of._find

    def refuse(*given, **options):
        is_follower = of is not offsets and given[0]._is_follower
        return right(*given, **options) if is_follower else ErrorCode.not_leader_or_follower

    monkeypatch.setattr(of, "_find", refuse)
    assert found_in(LOG, None, "leads-and-takes") == "leads-and-takes"


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        (["none"], []),
        (["unknown_topic_or_partition", "ineligible_replica"], []),
        (["unknown_server_error"], []),
        (["none", "invalid_request"], ["right-taken"]),
        (["mismatched_endpoint_type"], ["right-taken"]),
        (["unknown_server_error", "unexpected_failure"], ["right-taken"]),
    ],
    ids=["taken", "not now", "leadership was lost", "one row", "the whole", "why is not known"],
)
def test_a_right_request_is_called_wrong_by_nobody(errors, found):
    assert broken("answer", request="AlterPartition", errors=errors) == found


LEFT = Preferred("t-0", "A", (4, 7), leads=False, may_lead=True)


@pytest.mark.parametrize(
    ("before", "after", "error", "found"),
    [
        (LEFT, LEFT, "none", True),
        (LEFT, replace(LEFT, epochs=(5, 8), leads=True), "none", False),
        (LEFT, replace(LEFT, epochs=(5, 8)), "none", False),
        (LEFT, LEFT, "election_not_needed", True),
        (LEFT, replace(LEFT, epochs=(5, 8), leads=True), "election_not_needed", False),
        (LEFT, LEFT, "preferred_leader_not_available", True),
        (LEFT, replace(LEFT, epochs=(4, 8)), "preferred_leader_not_available", False),
        (*[replace(LEFT, may_lead=False)] * 2, "preferred_leader_not_available", False),
        (*[replace(LEFT, leads=True)] * 2, "preferred_leader_not_available", True),
        (*[replace(LEFT, leads=True)] * 2, "election_not_needed", False),
        (LEFT, LEFT, "unknown_topic_or_partition", True),
        (LEFT, replace(LEFT, topic_id="B"), "unknown_topic_or_partition", False),
        (LEFT, None, "none", False),
        (LEFT, LEFT, "request_timed_out", False),
    ],
    ids=[
        *("not held", "held", "another leads since", "it does not lead", "it leads since"),
        *("it could lead", "it came into the ISR meanwhile", "it could not", "it leads"),
        *("it led", "it is there", "another topic", "no topic", "no answer of the controller"),
    ],
)
def test_an_election_is_held_where_it_can_be(before, after, error, found):
    answer = {"error": error, "before": before, "after": after}
    assert broken("election-answer", **answer) == ["elections-held"] * found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({1: "", 2: " (fenced)"}, []),
        ({1: ""}, ["cluster-described"]),
        ({1: "", 2: ""}, ["cluster-described"]),
        ({1: "", 2: " (fenced)", 3: ""}, ["cluster-described"]),
    ],
    ids=["as they are", "one is missing", "one is not fenced", "one too many"],
)
def test_a_cluster_is_described_as_the_node_knows_it(rows, found):
    known = {1: "", 2: " (fenced)"}
    assert broken("cluster-answer", of="brokers", rows=rows, known=known) == found


@pytest.mark.parametrize(
    ("named", "leader", "shown", "found"),
    [
        (2, 2, [1, 2], []),
        (3, 2, [1, 3], []),
        (1, 1, [2], []),
        (-1, -1, [1, 2], []),
        (-1, 1, [1, 2], []),
        (-1, 2, [1], []),
        (-1, 2, [1, 2], ["cluster-described"]),
        (-1, 2, [3], ["cluster-described"]),
        (3, 2, [1, 2], ["cluster-described"]),
    ],
    ids=[
        *("the leader", "another, as the leader is fenced", "itself, fenced or not"),
        *("none leads", "it leads, unconfirmed", "no other is shown"),
        *("it knows the leader", "it shows another", "one that is not shown"),
    ],
)
def test_a_node_names_a_controller_that_it_shows_where_it_knows_one(named, leader, shown, found):
    answer = {"named": named, "own": 1, "leader": leader, "shown": shown}
    assert broken("controller-named", **answer) == found


@pytest.mark.parametrize(("number", "found"), [(7, ["producer-ids-once"]), (8, [])])
def test_no_two_producers_get_one_id(number, found):
    given = (("n1", "producer-id", {"id": 7}), ("n2", "producer-id", {"id": number}))
    assert broken_by(*given, among=ANSWERS) == found


BROKERS = [1, 2, 3]


@pytest.mark.parametrize(
    ("leader", "isr", "brokers", "found"),
    [
        (1, [1, 2], BROKERS, []),
        (-1, [3], [1, 2], []),
        (-1, [], BROKERS, []),
        (3, [1, 2], BROKERS, ["metadata-answered"]),
        (1, [1, 3], [1, 2], ["metadata-answered"]),
        (3, [3], [1, 2], ["metadata-answered"]),
        (-1, [2, 3], [1], ["metadata-answered"]),
        (1, [1, 1], BROKERS, ["metadata-answered"]),
        (4, [4], [1, 4], ["metadata-answered"]),
    ],
    ids=[
        *("led", "the last in sync is fenced, and does not lead", "nobody is in sync"),
        *("a leader that is not in sync", "a fenced one in sync", "a fenced leader"),
        *("two fenced ones in sync", "one twice", "one that is no replica"),
    ],
)
def test_what_metadata_says_of_partitions_and_of_brokers_fits(leader, isr, brokers, found):
    assert broken("metadata-answer", **partition(leader, isr=isr, brokers=brokers)) == found


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (partition(2), ["metadata-answered"]),
        (partition(-1, isr=[1]), ["metadata-answered"]),
        (partition(2, leader_epoch=5), []),
        (partition(2, topic_id="B"), []),
        (partition(2, index=1), []),
    ],
    ids=["two leaders", "a leader and none", "the next epoch", "a topic made anew", "another"],
)
def test_a_leader_epoch_has_one_leader_whoever_answers(other, found):
    answers = (("n1", "metadata-answer", partition(1)), ("n2", "metadata-answer", other))
    assert broken_by(*answers, among=ANSWERS) == found


ID_TWICE = ("unknown_topic_or_partition",), ("invalid_request",)


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        (["unknown_topic_or_partition", "invalid_request"], []),
        (["not_controller", "not_controller"], []),
        (["unknown_topic_or_partition", "request_timed_out"], []),
        (["unknown_topic_or_partition"], ["wrong-refused"]),
        ([], ["wrong-refused"]),
        (["unknown_topic_or_partition", "none"], ["wrong-refused"]),
        (["invalid_request", "unknown_topic_or_partition"], ["wrong-refused"]),
    ],
    ids=[
        *("each for its own reason", "not looked at", "one of them in time"),
        *("a row too few", "no row", "one is taken", "each for the other reason"),
    ],
)
def test_what_is_wrong_is_refused_thing_by_thing(errors, found):
    answer = {"what": "reassign: nowhere, twice", "errors": errors, "right": ID_TWICE}
    assert broken("refusal", **answer) == found
    assert broken("peer-refusal", **answer) == ["peers-refused"] * len(found)
    was_looked_at = "not_controller" not in errors and "request_timed_out" not in errors
    wrong = bool(found) or not was_looked_at
    assert broken("decision", **answer) == ["state-decides"] * wrong


LOG = {
    **QUIET,
    "duration_s": 6,
    "rate_per_s": 10,
    "workload": "log",
    "workload_options": {"compression": "snappy"},
    "node_settings": {"kraftprobe.registration": 1},
    "schedule": [
        {
            "at_ms": at_ms,
            "steps": [
                {"kind": "op", "f": "describe-cluster", "key": "d0-0", "targets": "node:n2"},
                {"kind": "op", "f": "grow-topic", "key": "e0-0"},
                {
                    "kind": "finalize",
                    "feature": "share.version",
                    "level": 0,
                    "change": "safe-downgrade",
                },
            ],
        }
        for at_ms in (1_000, 2_500)
    ],
}
TOPICS = {**LOG, "workload": "topics", "workload_options": {"names": 2}, "schedule": []}
MOVES = {
    **LOG,
    "workload_options": {"replication_factor": 2, "min_insync_replicas": 1},
    "schedule": [
        {
            "at_ms": 1_000 + 1_200 * number,
            "steps": [{"kind": "op", "f": "move-leader", "key": "d0-0", "value": 3 * number // 2}],
        }
        for number in range(4)
    ],
}
WRONGS = {
    **LOG,
    "workload_options": {},
    "schedule": [
        {
            "at_ms": 1_500 + 40 * number,
            "steps": [
                {
                    "kind": "op",
                    "f": "wrong-request",
                    "key": "d0-0",
                    "value": what,
                    "targets": node if wrong.is_of_broker else "leader",
                }
                for node in ("node:n1", *("node:n2", "node:n3") * what.startswith("epoch"))
            ],
        }
        for number, (what, wrong) in enumerate(WRONG.items())
    ],
}


def _refuse(request):
    error = ErrorCode.not_controller
    if isinstance(request, OffsetForLeaderEpochRequest):
        return offsets_for_leader_epochs(SimpleNamespace(find_leader=lambda *_: error), request)
    return error_response(request, error, None)


@pytest.mark.parametrize(
    ("known", "found"),
    [(None, []), (OffsetAndEpoch(8, 3), ["wrong-refused"])],
    ids=["none", "its own end, in its latest epoch"],
)
def test_a_leader_knows_nothing_of_an_epoch_later_than_all(known, found):
    what = "epoch: later than all"
    log = SimpleNamespace(end_offset_for_epoch=lambda _: known)
    manager = SimpleNamespace(find_leader=lambda *_: SimpleNamespace(log=log))
    errors = errors_of(offsets_for_leader_epochs(manager, WRONG[what].request))
    fields = {"what": what, "errors": errors, "right": WRONG[what].errors}
    assert broken("refusal", **fields) == found


def test_every_wrong_request_is_refused_for_a_reason_of_its_own():
    seen = {}
    mesh = SimpleNamespace(on_serve=defaultdict(list), on_reply=defaultdict(list))
    watcher = SimpleNamespace(
        take=lambda _node, _event, fields: seen.update({fields["what"]: fields})
    )
    AnswerWatch(SimpleNamespace(nodes={}, mesh=mesh, scheduler=IDLE), watcher)
    for wrong in WRONG.values():
        answer = _refuse(wrong.request)
        for look in mesh.on_reply[type(wrong.request)]:
            if look.__name__ == "_look_at_refusal":
                look("n1", wrong.request, answer)
        assert has_rows(answer) >= wrong.has_rows
        assert set(errors_of(answer)) == {"not_controller"}
    assert list(seen) == list(WRONG), "no two are equal"
    assert all(len(fields["errors"]) == len(fields["right"]) for fields in seen.values())


@pytest.mark.parametrize("is_changing", [False, True], ids=["no change", "a change goes on"])
def test_replicas_refuse_what_none_of_them_does_and_go_on(is_changing):
    world, leader = dynamic_world(observers=1)
    change = send(leader, add_request(world.nodes[4])) if is_changing else []
    for node, (what, (make, right)) in product(world.nodes.values(), WRONG_OF_QUORUMS.items()):
        request = make(node.client._core)
        if request is None:
            assert node is leader or "snapshot" in what
            continue
        errors = [error_of(answer).name for answer in send(node, request)]
        nobody = is_changing and "nobody" in what
        wanted = ["request_timed_out" if nobody else right[0]]
        assert errors in ([wanted] if node is leader else [wanted, ["not_leader_or_follower"]]), (
            what
        )
        rights = [(*right, "not_leader_or_follower")]
        assert not broken("refusal", what=what, errors=errors, right=rights)
    world.settle()
    assert len(change) == is_changing
    assert voter_ids(leader) == ((1, 2, 3, 4) if is_changing else (1, 2, 3))


@pytest.mark.parametrize(
    ("place", "is_found"),
    [
        ("inbound:InboundRequests._fetch_error:number:0", True),
        ("inbound:InboundRequests._fetch_snapshot:extreme:0", True),
        ("inbound:InboundRequests._is_addressed:relation:0", True),
        ("quorum.states:Follower.can_grant_vote:negation:0", True),
        ("replicated_log:ReplicatedLog.validate:never:3", True),
        (None, False),
    ],
)
def test_replicas_answer_by_what_they_have(place, is_found):
    world, leader = dynamic_world()
    core = leader.client._core
    snapshot_id = OffsetAndEpoch(core.log.high_watermark, core.quorum.epoch)
    leader.client.create_snapshot(snapshot_id, 0).freeze()
    world.settle()
    random, wrong = Random(1), []
    with apply_mutant(f"X:kraft.{place}") if place else nullcontext():
        for node in (*world.nodes.values(),) * 200:
            core = node.client._core
            asked = question(core, read_from(core.log, 0), random)
            if asked is not None:
                request, right, batches = asked
                wrong += [why_wrong(send(node, request), right, batches)]
    assert any(wrong) is is_found


def test_an_answer_that_is_not_the_right_one_is_reported():
    assert broken("peer-answer", request="Fetch", wrong="nothing") == ["peers-answered"]


def test_a_leader_sends_what_lies_in_a_snapshot_and_nothing_beyond():
    world, leader = dynamic_world()
    core, size = leader.client._core, 1 << 20
    offset = core.log.high_watermark
    writer = leader.client.create_snapshot(OffsetAndEpoch(offset, core.quorum.epoch), 0)
    writer.freeze()
    world.settle()
    asked = {w: make(core) for w, (make, _) in WRONG_OF_QUORUMS.items() if "snapshot" in w}
    behind = asked["load a snapshot: behind it"]
    (last,) = send(leader, replace(behind, position=behind.position - 1, max_bytes=size))
    assert (last.error, len(last.records)) == (ErrorCode.none, 1)
    errors = {what: error_of(send(leader, asked[what])[0]).name for what in asked}
    assert errors == {what: WRONG_OF_QUORUMS[what][1][0] for what in asked}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "mutant", "found"),
    [
        (LOG, "X:controller.core.feature_control:_update:left-out:0", "feature-kept"),
        (LOG, "X:log.batch.compression:inflate:relation:0", "batches-taken"),
        (
            LOG,
            "X:broker.replication.partition:Partition.acknowledgement:negation:0",
            "leads-and-takes",
        ),
        (LOG, "X:log.data.validation:_time_range:sum:0", "batches-taken"),
        (LOG, "X:controller.configs.describe:_plain_entry:truth:0", "cluster-described"),
        (LOG, "X:log.data.producer_state:ProducerState.load:left-out:2", "start-finds"),
        (LOG, "X:log.data.data_segment:DataSegment.load_times:sum:0", "start-finds"),
        (LOG, "X:kraft.raft_client:RaftClient._poll:extreme:0", "wakes-in-time"),
        (
            {**LOG, "workload_options": {"compression": "gzip"}},
            "X:log.batch.compression:_gunzip:always:0",
            "batches-taken",
        ),
        (LOG, "X:controller.apis.describe:_cluster_response:relation:0", "node-died"),
        (
            LOG,
            "X:controller.apis.controller_apis:ControllerApis._controller_to_name:relation:0",
            "cluster-described",
        ),
        *(
            (TOPICS, f"X:controller.{place}", found)
            for place, found in (
                ("apis.describe:describe_cluster:always:0", "cluster-described"),
                ("apis.describe:describe_cluster:never:3", "wrong-refused"),
                ("apis.topic_partitions:describe_topic_partitions:sum:0", "cluster-described"),
                ("configs.describe:_names:relation:1", "cluster-described"),
            )
        ),
        (MOVES, "X:controller.partitions.elections:_elect:never:5", "elections-held"),
        (
            MOVES,
            "X:controller.partitions.partition_change:PartitionChangeBuilder._target:always:5",
            "placement",
        ),
        (
            MOVES,
            "X:controller.partitions.partition_change:PartitionChangeBuilder.build:never:3",
            "partition-epochs",
        ),
        (MOVES, None, None),
        *(
            (WRONGS, f"X:controller.{place}", "wrong-refused")
            for place in (
                "configs.validation:_none_of:never:0",
                "configs.configuration_control:_check_logger:relation:0",
                "partitions.reassignment:_check_first:never:0",
            )
        ),
        (WRONGS, "X:log.data.data_log:DataLog.end_offset_for_epoch:connector:0", "wrong-refused"),
        (WRONGS, "X:kraft.reconfiguration:Reconfiguration._add:left-out:1", "wrong-refused"),
        (WRONGS, None, None),
        (LOG, None, None),
        (TOPICS, None, None),
        *(
            ({**LOG, "workload_options": {"compression": codec}}, None, None)
            for codec in ("gzip", "lz4", "zstd")
        ),
    ],
)
def test_worlds_find_wrong_answers_and_accuse_no_correct_node(document, mutant, found):
    assert found_in(document, mutant, found) == found


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "found"), [("M41E", "metadata-answered"), (None, None)])
def test_clients_see_by_metadata_alone_that_a_fenced_broker_leads(mutant, found):
    killed = {"kind": "kill", "targets": "node:n2", "for_ms": 3_000}
    document = {
        **LOG,
        "node_settings": {**LOG["node_settings"], "broker.session.timeout.ms": 1_000},
        "schedule": [{"at_ms": 1_500, "steps": [killed]}],
    }
    _, result = run(from_document({**document, "mutant": mutant}), BY_CLIENTS)
    assert result.property == found
