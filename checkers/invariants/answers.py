"""Invariants of what nodes answer to administrators and producers.

They read events that no node traces (`harness/sim/sights/answers.py`), each made as a node answers:
`feature-answer`, a level that is finalized now; `batch-answer`, what became of a right batch;
`lead-answer`, the error of a request that leaders answer, by a broker that led, and leads in the
same leader epoch still;
`cluster-answer`, rows of DescribeCluster, and what the node knows; `controller-named`, the broker
that an answer names as the controller; `producer-id`, the id that an idempotent producer gets;
`refusal`, the errors of an answer to a request that is wrong, or right, whatever the cluster holds,
and the right ones; `peer-refusal`, those of one that replicas alone send; `answer`, the errors of
one to a request that is right; `decision`, those that the active controller would answer to a
request by its image, and the right ones (`harness/sim/requests/what_ifs.py`); `election-answer`,
the error of an election of a preferred leader, and its partition in the state of the active
controller before and after; `metadata-answer`, a partition of an answer to Metadata, and the
brokers of that answer.

Those of `BY_CLIENTS` judge nothing but what was asked for and answered, which a client sees; so do
those of `descriptions` and `producers`, which are among them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from checkers.invariants.descriptions import DESCRIPTIONS
from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.producers import PRODUCERS
from checkers.invariants.sight import NO_NODE, Fields

_WRONG_BATCH: Final = frozenset(
    {
        *("corrupt_message", "invalid_record", "unknown_server_error"),
        *("unsupported_compression_type", "unsupported_for_message_format"),
        *("message_too_large", "record_list_too_large", "invalid_timestamp"),
    }
)
_OF_ELECTIONS: Final = frozenset(
    {"election_not_needed", "preferred_leader_not_available", "unknown_topic_or_partition"}
)
_NOT_LOOKED_AT: Final = frozenset(
    {
        *("not_controller", "request_timed_out", "unknown_server_error"),
        *("broker_not_available", "throttling_quota_exceeded"),
    }
)
_ACCUSING: Final = frozenset(
    {
        *("invalid_request", "invalid_registration", "invalid_topic_exception"),
        *("unsupported_version", "unsupported_endpoint_type", "mismatched_endpoint_type"),
        *("inconsistent_cluster_id", "unexpected_failure"),
    }
)
"""Errors by which a node calls a request wrong, or says that it failed at it by itself."""


@rule("feature-answer", "KIP-584, UpdateFeatures; FeatureControlManager.java")
def feature_kept(node: str, fields: Fields) -> Broken | None:
    """A level of a feature that a controller says is finalized is in its metadata.

    Judge an update that succeeded; another one may have followed.
    """
    level = fields["level"]
    if level in fields["found"] or not fields["is_alone"]:
        return None
    return Broken(
        f"{node} answers that {fields['feature']} is finalized at level {level}, and its "
        f"metadata have level {fields['found'][-1]}"
    )


@rule("batch-answer", "LogValidator.java")
def batches_taken(node: str, fields: Fields) -> Broken | None:
    """A leader takes a right batch, however it is compressed, or says what else is in its way."""
    error = fields["error"]
    if error not in _WRONG_BATCH:
        return None
    return Broken(f"{node} answers {error} to a right batch of {fields['partition']}")


@rule("lead-answer", "ReplicaManager.java, appendRecords, fetchOffset, readFromLog")
def leads_and_takes(node: str, fields: Fields) -> Broken | None:
    """A broker does not say that others lead what it leads, in one leader epoch all the time."""
    if fields["error"] != "not_leader_or_follower":
        return None
    return Broken(
        f"{node} answers {fields['error']} to a {fields['request']} of {fields['partition']}, "
        f"which it leads in leader epoch {fields['epoch']} since it was asked"
    )


@rule("answer", "ReplicationControlManager.java and others; KIP-919")
def right_taken(node: str, fields: Fields) -> Broken | None:
    """No node calls a request wrong that is right, and none fails at one by itself.

    Nodes ask one another, and clients here ask them, for nothing that could not be: what is in the
    way of a right request is the state of the cluster, and another error says so.
    """
    wrong = [error for error in fields["errors"] if error in _ACCUSING]
    if not wrong:
        return None
    return Broken(f"{node} answers {wrong[0]} to a right {fields['request']}")


@dataclass(frozen=True, slots=True)
class Preferred:
    """A partition of which a preferred leader is asked for, as the active controller has it."""

    name: str
    """As `topic-index`."""
    topic_id: str
    epochs: tuple[int, int]
    """Leader and partition epoch."""
    leads: bool
    """Whether its first replica leads."""
    may_lead: bool
    """Whether that is in sync and alive, in a log directory that is online."""


@rule("election-answer", "KIP-460; ReplicationControlManager.java, electLeader")
def elections_held(node: str, fields: Fields) -> Broken | None:
    """An election of a preferred leader is held where it can be, and answered as it went.

    Judge an answer where nobody led since but who led when the request came.
    """
    before: Preferred | None = fields["before"]
    after: Preferred | None = fields["after"]
    error = fields["error"]
    if before is None or after is None or before.topic_id != after.topic_id:
        return None
    if before.epochs[0] != after.epochs[0]:
        return None
    right = {"none"} if before.may_lead else {"preferred_leader_not_available"}
    if before.leads:
        right = {"election_not_needed"}
    is_wrong = error == "none" or (before == after and error in _OF_ELECTIONS - right)
    if not is_wrong:
        return None
    return Broken(
        f"{node} answers {error} to an election of the preferred leader of {before.name}, "
        f"which {'leads' if before.leads else 'does not lead'}, "
        f"{'could' if before.may_lead else 'could not'}, and has not been elected"
    )


class ClusterDescribed(Invariant):
    """What a node describes is what it knows: brokers or controllers, partitions, configurations.

    As controller it names a broker that it shows, and so does Metadata: clients find the controller
    by that name. A node names none where it knows no leader but itself, or no other broker.
    """

    name = "cluster-described"
    source = "KIP-700; KIP-919; KafkaApis.scala, getRandomAliveBrokerId"

    def on_cluster_answer(self, node: str, fields: Fields) -> Broken | None:
        """Judge the rows of an answer, each of them an id and what is said of it."""
        rows, known = fields["rows"], fields["known"]
        if rows == known:
            return None
        of = fields["of"]
        return Broken(f"{node} describes the {of} {_text(rows)}, and knows {_text(known)}")

    def on_controller_named(self, node: str, fields: Fields) -> Broken | None:
        """Judge the controller of an answer; of itself a node knows what it does not show."""
        named, own, leader, shown = (fields[key] for key in ("named", "own", "leader", "shown"))
        if named == NO_NODE:
            is_right = leader in (NO_NODE, own) or not set(shown) - {own}
        else:
            is_right = named == own or named in shown
        if is_right:
            return None
        names = "none" if named == NO_NODE else f"broker {named}"
        return Broken(
            f"{node} names {names} as the controller, shows the brokers {list(shown)}, and knows "
            f"{leader} to lead"
        )


class ProducerIdsOnce(Invariant):
    """No two producers get one id, whichever brokers give it.

    A leader would take what one of them sends for a retry of the other, and drop it.
    """

    name = "producer-ids-once"
    source = "KIP-98; KIP-730, RPCProducerIdManager"

    _givers: dict[int, str] = field(default_factory=dict)
    """By id: the broker that gave it."""

    def on_producer_id(self, node: str, fields: Fields) -> Broken | None:
        number = fields["id"]
        before = self._givers.get(number)
        self._givers[number] = node
        if before is None:
            return None
        return Broken(f"{node} gives a producer id {number}, which {before} gave to another one")


@rule(
    "refusal", "AbstractRequest.java, getErrorResponse; ReplicationControlManager.java and others"
)
def wrong_refused(node: str, fields: Fields) -> Broken | None:
    """What is illegal, or nowhere, is refused: thing by thing, with the error that says why.

    A node that does not look at a request says so of each thing as well: a client goes through what
    it asked for.
    """
    return _judge_errors(node, fields)


@rule("peer-refusal", "KIP-595; KIP-630; KIP-853; KafkaRaftClient.java")
def peers_refused(node: str, fields: Fields) -> Broken | None:
    """A replica refuses what no other replica may send, with the error that says why."""
    return _judge_errors(node, fields)


@rule("peer-answer", "KIP-595; KIP-630; KIP-853; KIP-996; KafkaRaftClient.java")
def peers_answered(node: str, fields: Fields) -> Broken | None:
    """A replica answers others by what it has: its log, its snapshots, and whom it follows.

    Report an answer, which is shown where it is not the right one.
    """
    return Broken(f"{node} answers a right {fields['request']} with {fields['wrong']}")


@rule("decision", "ReplicationControlManager.java, ClusterControlManager.java and others")
def state_decides(node: str, fields: Fields) -> Broken | None:
    """What the state of a controller decides it answers so: what is right, and why what is not.

    It appends nothing where it refuses, whoever asks: a broker, its own node, or a client.
    """
    return _judge_errors(node, fields, but=frozenset())


def _judge_errors(node: str, fields: Fields, but: frozenset[str] = _NOT_LOOKED_AT) -> Broken | None:
    """Judge the errors of an answer by the right ones for each thing that was asked for.

    `but`: those that are right of anything.
    """
    errors, right, what = fields["errors"], fields["right"], fields["what"]
    if len(errors) != len(right):
        return Broken(
            f"{node} answers `{what}`, which names {len(right)} things, for {len(errors)}"
        )
    for error, rights in zip(errors, right, strict=True):
        if error not in rights and error not in but:
            return Broken(
                f"{node} answers `{what}` with {error}, where {' or '.join(rights)} is right"
            )
    return None


class MetadataAnswered(Invariant):
    """What an answer to Metadata says of a partition fits its brokers, and fits other answers.

    Its leader is in sync, and who is in sync is a replica and no fenced broker, which no answer
    shows. Where there is no leader the last one in sync may be fenced: it leads when it is back.
    And whichever brokers answer, a leader epoch has one leader.
    """

    name = "metadata-answered"
    source = "KIP-841; KIP-320; ReplicationControlManager.java, handleBrokerFenced"

    _leaders: dict[tuple[str, int, int], tuple[int, str]] = field(default_factory=dict)
    """By topic id, partition and leader epoch: who leads, and the first node that said so."""

    def on_metadata_answer(self, node: str, fields: Fields) -> Broken | None:
        """Judge one partition of one answer."""
        leader, isr, brokers = fields["leader"], fields["isr"], fields["brokers"]
        nodes: tuple[str, ...] = ()
        at, among = (fields["topic_id"], fields["index"], fields["leader_epoch"]), {*isr}
        known, teller = self._leaders.setdefault(at, (leader, node))
        is_last = leader == NO_NODE and len(isr) == 1
        if known != leader:
            says, nodes = f"; {teller} said {known}, in leader epoch {at[2]}", (teller, node)
        elif len(among) < len(isr) or not among.issubset(fields["replicas"]):
            says = f", and of the replicas {list(fields['replicas'])}"
        elif (leader != NO_NODE and leader not in isr) or not (among.issubset(brokers) or is_last):
            says = f", where the brokers {sorted({*brokers})} are not fenced"
        else:
            return None
        name = fields["name"]
        return Broken(
            f"{node} answers of {name}: leader {leader}, in sync {list(isr)}{says}", nodes
        )


def _text(rows: Fields) -> str:
    return ", ".join(f"{number}{says}" for number, says in rows.items()) or "none"


ANSWERS = rules_of(__name__)
_BY_CLIENTS: Final[tuple[type[Invariant], ...]] = (
    *(batches_taken, ProducerIdsOnce, wrong_refused, MetadataAnswered),
    *(*DESCRIPTIONS, *PRODUCERS),
)
BY_CLIENTS: Final = frozenset(each.name for each in _BY_CLIENTS)
"""See the module."""
