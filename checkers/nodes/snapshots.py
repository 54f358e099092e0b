"""Each snapshot holds what the log below it adds up to, key by key (KIP-630, KIP-631).

A node that fetched a snapshot has nothing else of what is below it, so what a snapshot lacks is
lost with the last log that begins earlier. Here the records of a log are added up by rules of this
module's own, and the sum is compared with the snapshot of that offset: topics, partitions,
configurations, registrations, features, producer ids, quotas, access control, credentials, tokens,
and the voters. The form in which a node writes its snapshots, and their order, mean nothing: nodes
of two kinds may stand in one quorum.

A log begins at offset 0 with the snapshot 0-0, where a quorum was formatted with one, or where its
oldest snapshot ends, which cannot be judged by this log (`beginning`). Any node's log will do that
reaches the snapshot and whose node announced as much as committed: what is below a high watermark
is the same on all, which `log-agreement` and `log-matching` judge. One that no log reaches is
compared with the first of its id. Complexity: O(records + snapshots x keys).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from checkers.evidence import Evidence, LogRecord, Snapshot
from checkers.evidence.evidence_result import evidence_result
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "snapshots"

Key = tuple[str, ...]
Value = dict[str, Any]

_SHOWN_MAX = 3
"""Of the keys that differ, how many an anomaly names."""
_MIGRATING: Final = "00000000-0000-0000-0000-000000000002"
"""DirectoryId.MIGRATING: of a replica of which no directory was ever recorded."""
_ORDERED: Final = frozenset({"replicas", "directories"})
"""Lists whose order means something; directories are those of the replicas, in their order."""
_TOPIC_RESOURCE: Final = 2
_NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_CHANGE: Final = -1


class Image:
    """What records add up to: key -> fields."""

    def __init__(self) -> None:
        self.keys: dict[Key, Value] = {}
        self._held: list[tuple[str, Value]] | None = None
        """Records of a metadata transaction that has not ended (KIP-868)."""

    @property
    def holds(self) -> bool:
        """Whether records wait for the end of a metadata transaction."""
        return self._held is not None

    def add(self, kind: str, value: Mapping[str, Any]) -> None:
        """Add one record. What this module does not know, and what no state is made of, is left."""
        if kind == "BeginTransactionRecord":
            self._held = []
        elif kind == "AbortTransactionRecord":
            self._held = None
        elif kind == "EndTransactionRecord":
            held, self._held = self._held or [], None
            for one in held:
                self._add(*one)
        elif self._held is not None and not kind.startswith("control:"):
            self._held.append((kind, dict(value)))
        else:
            self._add(kind, dict(value))

    def _add(self, kind: str, value: Value) -> None:
        rule = _RULES.get(kind)
        if rule is not None:
            rule(self.keys, value)


Rule = Callable[[dict[Key, Value], Value], None]


def _text(part: object) -> str:
    return part if isinstance(part, str) else json.dumps(part, sort_keys=True)


def _put(name: str, *by: str) -> Rule:
    """Take the record for the value of the key that these fields name."""

    def rule(keys: dict[Key, Value], value: Value) -> None:
        keys[(name, *(_text(value.get(field)) for field in by))] = value

    return rule


def _drop(name: str, *by: str) -> Rule:
    def rule(keys: dict[Key, Value], value: Value) -> None:
        keys.pop((name, *(_text(value.get(field)) for field in by)), None)

    return rule


def _config(keys: dict[Key, Value], value: Value) -> None:
    rule = (_drop if value.get("value") is None else _put)(
        "config", "resourceType", "resourceName", "name"
    )
    rule(keys, value)


def _feature(keys: dict[Key, Value], value: Value) -> None:
    if value.get("name") == "kraft.version":  # Kafka 4.0.0 keeps what all others skip
        return
    (_put if value.get("featureLevel") else _drop)("feature", "name")(keys, value)


def _quota(keys: dict[Key, Value], value: Value) -> None:
    entity = sorted(value.get("entity") or (), key=_text)
    key = ("quota", _text(entity), _text(value.get("key")))
    if value.get("remove"):
        keys.pop(key, None)
    else:
        keys[key] = {"value": value.get("value")}


def _producer_ids(keys: dict[Key, Value], value: Value) -> None:
    # Of the block that a broker was given last only its end is part of the state.
    keys[("producer-ids",)] = {"nextProducerId": value.get("nextProducerId")}


def _partition(keys: dict[Key, Value], value: Value) -> None:
    directories = value.get("directories") or [_MIGRATING] * len(value.get("replicas") or ())
    _put("partition", "topicId", "partitionId")(keys, {**value, "directories": directories})


def _partition_change(keys: dict[Key, Value], value: Value) -> None:
    key = ("partition", _text(value.get("topicId")), _text(value.get("partitionId")))
    before = keys.get(key)
    if before is None:
        return
    after = {**before, "partitionEpoch": before.get("partitionEpoch", -1) + 1}
    for field in _CHANGED_LISTS:
        if value.get(field) is not None:
            after[field] = value[field]
    if value.get("leader", _NO_LEADER_CHANGE) != _NO_LEADER_CHANGE:
        after |= {"leader": value["leader"], "leaderEpoch": before.get("leaderEpoch", -1) + 1}
    if value.get("leaderRecoveryState", _NO_RECOVERY_CHANGE) != _NO_RECOVERY_CHANGE:
        after["leaderRecoveryState"] = value["leaderRecoveryState"]
    keys[key] = after


_CHANGED_LISTS: Final = (
    *("isr", "replicas", "removingReplicas", "addingReplicas", "directories"),
    *("eligibleLeaderReplicas", "lastKnownElr"),
)


def _remove_topic(keys: dict[Key, Value], value: Value) -> None:
    topic_id = _text(value.get("topicId"))
    topic = keys.pop(("topic", topic_id), None)
    number = 0
    while keys.pop(("partition", topic_id, str(number)), None) is not None:
        number += 1
    if topic is not None:
        of_topic = ("config", str(_TOPIC_RESOURCE), _text(topic.get("name")))
        for key in [key for key in keys if key[:3] == of_topic]:
            del keys[key]


def _clear_elr(keys: dict[Key, Value], value: Value) -> None:
    topics = {key[1]: topic.get("name") for key, topic in keys.items() if key[0] == "topic"}
    for key, partition in list(keys.items()):
        if key[0] != "partition" or value.get("topicName") not in ("", None, topics.get(key[1])):
            continue
        if partition.get("eligibleLeaderReplicas") or partition.get("lastKnownElr"):
            epoch = partition.get("partitionEpoch", -1) + 1
            cleared: Value = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
            keys[key] = {**partition, **cleared, "partitionEpoch": epoch}


def _broker(**changes: object) -> Rule:
    def rule(keys: dict[Key, Value], value: Value) -> None:
        _change_broker(keys, value.get("id"), changes)

    return rule


def _broker_change(keys: dict[Key, Value], value: Value) -> None:
    changes: Value = {}
    if value.get("fenced"):
        changes["fenced"] = value["fenced"] == 1
    if value.get("inControlledShutdown"):
        changes["inControlledShutdown"] = True
    if value.get("logDirs"):
        changes["logDirs"] = value["logDirs"]
    if value.get("cordonedLogDirs") is not None:
        changes["cordonedLogDirs"] = value["cordonedLogDirs"]
    _change_broker(keys, value.get("brokerId"), changes)


def _change_broker(keys: dict[Key, Value], broker_id: object, changes: Mapping[str, Any]) -> None:
    key = ("broker", _text(broker_id))
    if key in keys:
        keys[key] = {**keys[key], **changes}


_RULES: Final[Mapping[str, Rule]] = {
    "TopicRecord": _put("topic", "topicId"),
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "ClearElrRecord": _clear_elr,
    "ConfigRecord": _config,
    "FeatureLevelRecord": _feature,
    "ProducerIdsRecord": _producer_ids,
    "RegisterBrokerRecord": _put("broker", "brokerId"),
    "UnregisterBrokerRecord": _drop("broker", "brokerId"),
    "FenceBrokerRecord": _broker(fenced=True),
    "UnfenceBrokerRecord": _broker(fenced=False),
    "BrokerRegistrationChangeRecord": _broker_change,
    "RegisterControllerRecord": _put("controller", "controllerId"),
    "UnregisterControllerRecord": _drop("controller", "controllerId"),
    "UserScramCredentialRecord": _put("credential", "name", "mechanism"),
    "RemoveUserScramCredentialRecord": _drop("credential", "name", "mechanism"),
    "DelegationTokenRecord": _put("token", "tokenId"),
    "RemoveDelegationTokenRecord": _drop("token", "tokenId"),
    "AccessControlEntryRecord": _put("access", "id"),
    "RemoveAccessControlEntryRecord": _drop("access", "id"),
    "ClientQuotaRecord": _quota,
    "control:KRAFT_VERSION": _put("kraft-version"),
    "control:KRAFT_VOTERS": _put("voters"),
}
"""What adds a record of each kind, by the names of `checkers.evidence.LogRecord`."""


def image_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> Image:
    """Add up a whole sequence of records."""
    image = Image()
    for kind, value in records:
        image.add(kind, value)
    return image


def beginning(
    evidence: Evidence, log: Sequence[LogRecord]
) -> tuple[Snapshot, Sequence[LogRecord]] | None:
    """Return the state from which a log goes on, and its records from there on; None: unknown.

    Nodes delete whole segments, so records of before the oldest snapshot may be there still.
    """
    first, end = log[0].offset, log[-1].offset + 1
    within = (o for each in evidence.snapshots.values() for o in each if first <= o.offset <= end)
    oldest = min(within, key=lambda one: one.offset, default=None)
    if first == 0 and (oldest is None or oldest.offset > 0):
        return Snapshot(log[0].node, 0, 0, ()), log
    if oldest is None:
        return None
    return oldest, log[bisect_left(log, oldest.offset, key=lambda record: record.offset) :]


def unknown_beginning(log: Sequence[LogRecord]) -> str:
    """Name what is missing where there is no `beginning`."""
    return f"{log[-1].node} (the snapshot at offset {log[0].offset}, where its log begins)"


def differences(sum_: Image, snapshot: Image, by: str = "the log") -> Iterator[str]:
    """Name each key in which a snapshot differs from what `by` has, and how."""
    for key in sorted(sum_.keys.keys() | snapshot.keys.keys()):
        ours, its = sum_.keys.get(key), snapshot.keys.get(key)
        if its is None:
            yield f"it lacks {_name(key)}"
        elif ours is None:
            yield f"it holds {_name(key)}, which {by} does not"
        else:
            left, right = _plain(ours), _plain(its)
            for field in sorted(left.keys() | right.keys()):
                if left.get(field) != right.get(field):
                    yield (
                        f"{_name(key)}: {field} is {_short(right.get(field))}, by {by} "
                        f"{_short(left.get(field))}"
                    )


def _plain(value: Value) -> Value:
    """Leave out what says nothing, and the order of lists in which it means nothing."""
    return {
        field: sorted(part, key=_text) if isinstance(part, list) and field not in _ORDERED else part
        for field, part in value.items()
        if part not in (None, [], "", False)
    }


def _name(key: Key) -> str:
    return " ".join(part for part in key if part)


def _short(part: object) -> str:
    text = _text(part)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Compare every snapshot with the logs, or with others of its id where no log reaches it."""
    del options
    evidence = run.required_evidence
    sums = _Sums(evidence)
    anomalies: list[Anomaly] = []
    judged = keys = 0
    unjudged: dict[tuple[int, int], Snapshot] = {}
    for snapshot in _by_offset(evidence):
        if cancelled():
            break
        name, held = f"{snapshot.offset}-{snapshot.epoch}", image_of(snapshot.records)
        sum_, by, what = sums.up_to(snapshot.offset), "the log", "the log below it adds up to"
        if sum_ is None:
            first = unjudged.setdefault((snapshot.offset, snapshot.epoch), snapshot)
            if first is snapshot:
                continue
            sum_, by, what = image_of(first.records), first.node, f"that of {first.node} is"
        judged += 1
        keys += len(sum_.keys)
        found = list(islice(differences(sum_, held, by), _SHOWN_MAX + 1))
        if found:
            more = ", and more" if len(found) > _SHOWN_MAX else ""
            explanation = (
                f"snapshot {name} of {snapshot.node} is not what {what}: "
                f"{'; '.join(found[:_SHOWN_MAX])}{more}"
            )
            anomalies.append(
                anomaly("snapshot-differs", explanation, node=snapshot.node, offset=snapshot.offset)
            )
    good = f"{judged} snapshots agree with the log, or with each other, in {keys} keys"
    if not judged and not unjudged:
        good = "no node took a snapshot of more than nothing"
    aside = [f"{one.offset}-{one.epoch} of {one.node}" for one in unjudged.values()]
    if aside:
        good += f"; not judged, since no log reaches back far enough: {', '.join(aside)}"
    return evidence_result(
        NAME,
        anomalies,
        missing=[f"{node} (snapshots)" for node in evidence.logs.keys() - evidence.snapshots],
        cancelled=cancelled(),
        exercised=True,
        good=good,
        looked_at=judged,
        statistics={"snapshots": judged, "keys": keys, "not_judged": aside},
    )


def _by_offset(evidence: Evidence) -> list[Snapshot]:
    """List the snapshots that hold something of a log, by the end of what they hold."""
    found = [one for each in evidence.snapshots.values() for one in each if one.offset > 0]
    return sorted(found, key=lambda one: (one.offset, one.epoch, one.node))


class _Sums:
    """What logs add up to, at offsets that only grow: every record is added once."""

    def __init__(self, evidence: Evidence) -> None:
        begun = ((node, beginning(evidence, log)) for node, log in evidence.logs.items() if log)
        self._logs = {node: known for node, known in begun if known is not None}
        self._ends = {
            node: min(log[-1].offset + 1, _committed_end(evidence, node))
            for node, log in evidence.logs.items()
            if log
        }
        self._added: dict[str, tuple[Image, int]] = {}
        """Node -> the sum of its log's first records, and how many they are."""

    def up_to(self, offset: int) -> Image | None:
        """Add up the log that begins earliest; None where none reaches from a known state."""
        fit = [
            (oldest.offset, node)
            for node, (oldest, _) in self._logs.items()
            if oldest.offset < offset <= self._ends[node]
        ]
        if not fit:
            return None
        _, node = min(fit)
        oldest, log = self._logs[node]
        image, count = self._added.get(node) or (image_of(oldest.records), 0)
        while count < len(log) and log[count].offset < offset:
            image.add(log[count].kind, log[count].value)
            count += 1
        self._added[node] = image, count
        return image


def _committed_end(evidence: Evidence, node: str) -> int:
    """Return up to where a node's log is known to be that of the quorum."""
    taken = (one.offset for one in evidence.snapshots.get(node, ()))
    return max(evidence.announced_end([node]), *taken, 0)
