"""ISR and ELR in the metadata log: who may lead a partition, and who is remembered (KIP-966).

Every PartitionRecord and PartitionChangeRecord is a decision of a controller, so the log alone
shows whether it was allowed: it is added up record by record (`nodes.snapshots.Image`), and each
partition is compared with what it was. Epochs of changes are not in the records: replicas count
them, and `snapshots` compares what they counted. The newest log is judged, from offset 0 or from a
snapshot where it begins. docs/checkers.md#isr has the kinds; this is what is allowed, and why:

- `not-a-replica`: Kafka leaves in the ELR whom a reassignment removed.
- `unclean-election`: in sync is, too, who was put into the ISR with the others as a reassignment
  ends, or kept by it. Allowed where the leader is marked as RECOVERING and
  `unclean.leader.election.enable` is true for the topic or the cluster, or it is the last known
  leader of a partition with neither ISR nor ELR, but for those who are registered anew in the same
  batch (the unclean shutdown that takes the last one from the ELR elects in the same step).
- `elr-forgotten`: allowed of one that is no replica any more, or was registered anew or
  unregistered in the same batch (an unclean shutdown). A broker with many partitions is registered
  behind several batches of changes: one of at least 1,000 records may belong to a registration that
  comes later in its epoch. This is also what keeps ISR and ELR together as large as
  min.insync.replicas, once they were (MinIsrRecoveryQuorum).
- `elr-kept`: what a change of leader or replicas leaves there, Kafka drops with the next change.
- `left-in-epoch`: by a new leader epoch a leader would refuse what those taken away still ask.
- `fenced-leader`: the last of an ISR stays there as it is fenced, and leads again once it is not.
- `isr-not-decided`: a broker of this repository traces the ISR that it acts by, with the partition
  epoch of the decision that it takes it from: as it begins to lead, and whenever it learns of
  another. A leader waits for the maximal ISR, which is this one and whom it has proposed, so that
  the rule keeps the maximal ISR above the controller's (ReplicationQuorumSuperset of KIP-966's
  specification) as long as the leader knows of the newest decision; an older one's is fenced by the
  next one's epoch. Epochs that the log does not show, as it begins behind them, are not judged; of
  a topic that was deleted and made again, either life's decision will do, and where the log may
  lack those of an earlier life, none is judged.
- `dead-unfenced`: `nodes.fences`.

`isr-elr-overlap`, `leader-not-in-sync` and `fenced-into-isr` are ValidControllerIsrAndElr,
LeaderInIsr and ValidControllerState of KIP-966's specification. Cannot see: what an operator asked
for by ElectLeaders UNCLEAN, and what a broker's own file sets.
Complexity: O(records), each with the members of one partition, and O(events).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from checkers.evidence import Evidence, LogRecord
from checkers.evidence.evidence_result import evidence_result, without_log
from checkers.evidence.trace_fields import well_formed
from checkers.nodes.fences import SESSION_MS, unfenced_dead
from checkers.nodes.in_sync import newest_records
from checkers.nodes.snapshots import Image, Key, Value, beginning, image_of, unknown_beginning
from checkers.partition_logs.columns import RENEW
from checkers.run_input import RunInput
from checkers.verdict import Anomaly, CheckResult, anomaly
from porcupine_py.search.outcome import Cancelled, never

NAME = "isr"
PARTITION, CHANGE = "PartitionRecord", "PartitionChangeRecord"
_CLEAR_ELR: Final = "ClearElrRecord"
_NOBODY: Final = -1
_RECOVERING: Final = 1
_TOPIC, _BROKER = "2", "4"
"""Types of a ConfigRecord's resource."""
_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_ELR_FEATURE = ("feature", "eligible.leader.replicas.version")
_ELR = "eligibleLeaderReplicas"
_LISTS = ("isr", "replicas", _ELR, "lastKnownElr", "addingReplicas")
_FENCES = ("FenceBrokerRecord", "BrokerRegistrationChangeRecord")
_GONE = ("RegisterBrokerRecord", "UnregisterBrokerRecord")
_STATES = (*_FENCES, *_GONE, "UnfenceBrokerRecord")
_PART: Final = 1_000
"""Records of a batch that may be a part of more (`cluster.node.controller.metadata.result`)."""


def check(run: RunInput, options: Mapping[str, Any], cancelled: Cancelled = never) -> CheckResult:
    """Judge the newest log's decisions about partitions."""
    evidence, malformed = well_formed(run.required_evidence)
    missing = without_log(evidence) + malformed
    log = newest_records(evidence)
    replay = _Replay()
    unfenced: list[Anomaly] = []
    apart: set[str] = set()
    is_whole = False
    if log:
        node = log[-1].node
        if log[0].offset > 0:
            apart = {str(each.key).rpartition("-")[0] for each in run.operations if each.f == RENEW}
        known = beginning(evidence, log)
        if known is None:
            missing.append(unknown_beginning(log))
        else:
            oldest, log = known
            replay.image = image_of(oldest.records)
            whole = list(takewhile(_well_formed, log))
            replay.read(whole, cancelled)
            is_whole = len(whole) == len(log) and not cancelled()
            start, session_ms = image_of(oldest.records), options.get("session_ms", SESSION_MS)
            unfenced.extend(unfenced_dead(run, evidence, start, whole, session_ms))
            if len(whole) < len(log):  # behind it nothing is known of what came before
                odd = log[len(whole)]
                missing.append(f"{node} (a malformed {odd.kind} at offset {odd.offset})")
    decisions = replay.decisions
    return evidence_result(
        NAME,
        [
            *({**anomaly, "node": node} for anomaly in replay.anomalies),
            # Of a topic that was made anew, the rest of the log may have the decision.
            *(_not_decided(evidence, replay.isrs, apart) if is_whole else ()),
            *unfenced,
        ],
        missing=missing,
        cancelled=cancelled(),
        exercised=True,
        good=f"{decisions} decisions about partitions keep the rules of ISR and ELR",
        looked_at=decisions,
        statistics={"decisions": decisions, "elections": replay.elections},
    )


def _well_formed(record: LogRecord) -> bool:
    """Whether a record has the fields that are read here, as they must be."""
    value = record.value
    if record.kind in _GONE:
        return _whole(value.get("brokerId"))
    if record.kind not in (PARTITION, CHANGE):
        return True
    named = isinstance(value.get("topicId"), str) and _whole(value.get("partitionId"))
    wholly = record.kind == PARTITION
    leads = _whole(value.get("leader")) if wholly else _whole(value.get("leader", _NOBODY))
    lists = (value.get(field) for field in _LISTS)
    fit = all(each is None or (isinstance(each, list) and all(map(_whole, each))) for each in lists)
    given = (value.get("isr"), value.get("replicas"))
    there = not wholly or (None not in given and _whole(value.get("partitionEpoch")))
    return named and leads and fit and there


def _broker(record: LogRecord) -> object:
    """Return the broker that a record is about, if it says so."""
    return record.value.get("brokerId", record.value.get("id"))


def _whole(value: object) -> bool:
    return type(value) is int


class _Replay:
    """The state below a record, and what is wrong with the decisions so far."""

    def __init__(self) -> None:
        self.image = Image()
        self.anomalies: list[Anomaly] = []
        self.decisions = 0
        self.elections = 0
        self.isrs: dict[tuple[str, int, int], set[frozenset[int]]] = {}
        """See `Decided`."""
        self._joined: list[tuple[Key, int, LogRecord, Value]] = []
        """Brokers that came into an ISR, or to lead, in this batch; how they were registered."""
        self._registered: dict[str, LogRecord] = {}
        """The last record about each broker's registration."""
        self._left: frozenset[int] = frozenset()
        """Brokers that this batch, or what it is a part of, registers or unregisters."""

    def read(self, log: Sequence[LogRecord], cancelled: Cancelled) -> None:
        begin = 0
        later = [record for record in log if record.kind in _GONE]
        while begin < len(log) and not cancelled():
            end = begin
            batch = (log[begin].epoch, log[begin].batch_crc)
            while end < len(log) and (log[end].epoch, log[end].batch_crc) == batch:
                end += 1
            records = log[begin:end]
            parts = later if len(records) >= _PART else records
            self._left = frozenset(
                int(record.value["brokerId"])
                for record in parts
                if record.kind in _GONE
                and record.epoch == batch[0]
                and record.offset >= records[0].offset
            )
            self._batch(records)
            begin = end

    def _batch(self, records: Sequence[LogRecord]) -> None:
        unfenced = {
            broker for broker in self._of_fences(records) if self._is_fenced(broker) is False
        }
        for record in records:
            if record.kind in (PARTITION, CHANGE):
                self._decide(record)
            else:
                self.image.add(record.kind, record.value)
                if record.kind in _STATES:
                    self._registered[str(_broker(record))] = record
            if record.kind == _CLEAR_ELR:  # the ISRs are the same, in later partition epochs
                for key, partition in self.image.keys.items():
                    if key[0] == "partition":
                        self._note_isr(key, partition)
        self._check_fences(records[-1], unfenced)
        for key, broker, record, before in self._joined:
            after = self.image.keys.get(key, {})
            registration = self.image.keys.get(("broker", str(broker)), {})
            isr, leads = _members(after, "isr"), broker == record.value.get("leader")
            is_last = isr == [broker] and after["leader"] == _NOBODY
            for state, said in (("fenced", "is fenced"), ("inControlledShutdown", "shuts down")):
                # Fenced behind the decision, in its batch, it stays as the last that was in sync.
                later = is_last and before.get(state) is False
                if broker in isr and registration.get(state) is True and not later:
                    does = "elects" if leads else "takes up"
                    last = self._registered.get(str(broker))
                    since = f" ({last.kind} at offset {last.offset})" if last else ""
                    what = f"{does} broker {broker} while it {said}{since}"
                    kind = "fenced-leader" if leads else "fenced-into-isr"
                    self._wrong(kind, record, key, after, what)
                    break
        self._joined.clear()

    def _of_fences(self, records: Sequence[LogRecord]) -> Iterator[int]:
        """Yield the brokers that a whole batch may fence."""
        for record in records if len(records) < _PART else ():
            broker = _broker(record)
            if record.kind in _FENCES and _whole(broker) and broker not in self._left:
                yield int(str(broker))

    def _is_fenced(self, broker: int) -> object:
        """Whether a broker is fenced, if it is registered."""
        return self.image.keys.get(("broker", str(broker)), {}).get("fenced")

    def _check_fences(self, record: LogRecord, unfenced: Collection[int]) -> None:
        """Who is fenced leaves every ISR, but those of which it is the last member (KIP-631)."""
        fenced = {broker for broker in unfenced if self._is_fenced(broker) is True}
        partitions = [key for key in self.image.keys if fenced and key[0] == "partition"]
        for key in partitions:
            isr = _members(self.image.keys[key], "isr")
            for broker in fenced.intersection(isr) if len(isr) > 1 else ():
                what = f"keeps broker {broker} in sync beside others, which is fenced"
                self._wrong("fenced-in-isr", record, key, self.image.keys[key], what)

    def _decide(self, record: LogRecord) -> None:
        key = ("partition", str(record.value["topicId"]), str(record.value["partitionId"]))
        before = self.image.keys.get(key)
        self.image.add(record.kind, record.value)
        after = self.image.keys.get(key)
        self.decisions += 1
        if after is None:
            held = self.image.holds  # created in a metadata transaction that is still open
            if record.kind == CHANGE and not held:
                self._wrong("change-of-nothing", record, key, {}, "was never created")
            return
        isr, elr = _members(after, "isr"), _members(after, _ELR)
        self._note_isr(key, after)
        replicas, leader = set(_members(after, "replicas")), after["leader"]
        doubled = len({*isr}) < len(isr) or len({*elr}) < len(elr)
        # Kafka leaves in the ELR whom a reassignment removed, until the ISR is large enough.
        left = {*_members(before or {}, "replicas"), *_members(before or {}, _ELR)}
        if doubled or not {*isr} <= replicas or not {*elr} <= replicas | left:
            self._wrong("not-a-replica", record, key, after, "has members that are no replicas")
        if {*isr} & {*elr}:
            self._wrong("isr-elr-overlap", record, key, after, "has a member in ISR and ELR")
        if leader not in (_NOBODY, *isr):
            self._wrong("leader-not-in-sync", record, key, after, "has a leader not in its ISR")
        old = set(_members(before or {}, "isr"))
        if not self._is_forced(key, before or {}, after):
            elected = {leader} - {(before or {}).get("leader")}
            new = (broker for broker in isr if broker in elected or broker not in old)
            keys = self.image.keys
            self._joined += (
                (key, broker, record, dict(keys.get(("broker", str(broker)), {}))) for broker in new
            )
        if before is not None and record.kind == CHANGE:
            self._check_election(record, key, before, after)
            self._check_reassignment(record, key, before, after)
            self._check_memory(record, key, before, after)

    def _note_isr(self, key: Key, partition: Value) -> None:
        name = str(self.image.keys.get(("topic", key[1]), {}).get("name"))
        at = name, int(key[2]), int(partition["partitionEpoch"])
        self.isrs.setdefault(at, set()).add(frozenset(_members(partition, "isr")))

    def _check_election(self, record: LogRecord, key: Key, before: Value, after: Value) -> None:
        leader, isr = after["leader"], _members(after, "isr")
        if leader in (_NOBODY, before["leader"]):
            return
        self.elections += 1
        eligible = {*_members(before, "isr"), *_members(before, _ELR)}
        if leader in eligible:
            return
        recovering = after.get("leaderRecoveryState") == _RECOVERING
        # The leader that proposes an ISR goes on, unless a reassignment takes it away: then it is
        # one that has come with others, or alone of those that were not to go.
        moved = _is_under_way(before) and not _is_under_way(after)
        there = {*_members(before, "replicas"), *_members(before, "addingReplicas")}
        joins = not recovering and leader in there - {*_members(before, "removingReplicas")}
        if record.value.get("replicas") is not None and moved and (isr != [leader] or joins):
            return
        # Who comes back from an unclean shutdown leaves the ELR in the same step that then elects.
        nobody = not eligible - self._left
        last_known = nobody and _members(before, "lastKnownElr") == [leader]
        configured = self._is_unclean(key)
        if (recovering and (last_known or configured)) or self._is_forced(key, before, after):
            return
        why = "though unclean elections are off" if recovering else "not marked as recovering"
        was = f"ISR ({_ids(before, 'isr')}) nor in ELR ({_ids(before, 'eligibleLeaderReplicas')})"
        what = f"elects {leader}, which was neither in {was}, {why}"
        self._wrong("unclean-election", record, key, after, what)

    def _is_unclean(self, key: Key) -> bool:
        return str(self._config(key, _UNCLEAN)).lower() == "true"

    def _is_forced(self, key: Key, before: Value, after: Value) -> bool:
        """Whether a reassignment is given up that had none in sync but those that it added.

        Kafka then makes the first replica that was there before the ISR, dead or alive and without
        a mark, where unclean elections are on (`PartitionReassignmentRevert`).
        """
        replicas, adding = _members(after, "replicas"), set(_members(before, "addingReplicas"))
        is_over = bool(adding) and adding.isdisjoint(replicas) and not _is_under_way(after)
        alone = _members(after, "isr") == replicas[:1] and adding >= {*_members(before, "isr")}
        return is_over and alone and self._is_unclean(key)

    def _check_reassignment(self, record: LogRecord, key: Key, before: Value, after: Value) -> None:
        replicas = set(_members(after, "replicas"))
        removed = sorted(set(_members(before, "replicas")) - replicas)
        if removed and after.get("leaderEpoch") == before.get("leaderEpoch"):
            what = f"loses {', '.join(map(str, removed))} within its leader epoch"
            self._wrong("left-in-epoch", record, key, after, what)
        adding = set(_members(before, "addingReplicas"))
        is_over = adding <= replicas and not _is_under_way(after)
        late = sorted(adding - set(_members(after, "isr")))
        if is_over and late and after.get("leaderRecoveryState") != _RECOVERING:
            what = f"ends a reassignment that adds {', '.join(map(str, late))}, not in sync yet"
            self._wrong("reassigned-early", record, key, after, what)

    def _check_memory(self, record: LogRecord, key: Key, before: Value, after: Value) -> None:
        level = self.image.keys.get(_ELR_FEATURE, {}).get("featureLevel", 0)
        configured = str(self._config(key, _MIN_ISR))
        if level < 1 or not configured.isdecimal():
            return
        least = int(configured)
        isr, elr = set(_members(after, "isr")), set(_members(after, _ELR))
        replicas = set(_members(after, "replicas"))
        if len(isr) >= min(least, len(replicas)):
            # Whom an election or a reassignment leaves in the ELR goes with the next change.
            settled = after["leader"] == before["leader"] and record.value.get("replicas") is None
            if elr and settled:
                self._wrong("elr-kept", record, key, after, f"keeps an ELR, {_MIN_ISR} is {least}")
            return
        if after.get("leaderRecoveryState") == _RECOVERING:
            return  # what was known of the others is void
        had = {*_members(before, "isr"), *_members(before, _ELR)}
        forgotten = sorted((had - isr - elr - self._left) & replicas)
        if forgotten:
            names = ", ".join(map(str, forgotten))
            what = f"forgets {names}, with an ISR below {_MIN_ISR} {least}"
            self._wrong("elr-forgotten", record, key, after, what)

    def _config(self, key: Key, name: str) -> object:
        """Return a topic's configuration, or the cluster's default for it; None: not recorded."""
        keys = self.image.keys
        topic = keys.get(("topic", key[1]), {}).get("name")
        for resource in ((_TOPIC, str(topic)), (_BROKER, "")):
            found = keys.get(("config", *resource, name))
            if found is not None:
                return found.get("value")
        return None

    def _wrong(self, kind: str, record: LogRecord, key: Key, after: Value, what: str) -> None:
        topic = self.image.keys.get(("topic", key[1]), {}).get("name", key[1])
        state = (
            f": leader {after['leader']}, ISR {_ids(after, 'isr')}, "
            f"ELR {_ids(after, 'eligibleLeaderReplicas')}, replicas {_ids(after, 'replicas')}"
            if after
            else ""
        )
        name = f"{topic}-{key[2]}"
        where = f"by the record at offset {record.offset}, epoch {record.epoch}"
        self.anomalies.append(
            anomaly(
                kind,
                f"{name} {what}, {where}{state}",
                partition=name,
                offset=record.offset,
                epoch=record.epoch,
            )
        )


def _members(partition: Mapping[str, Any], field: str) -> list[int]:
    return list(partition.get(field) or ())


def _is_under_way(partition: Mapping[str, Any]) -> bool:
    """Whether a partition is being reassigned."""
    return bool(partition.get("addingReplicas") or partition.get("removingReplicas"))


def _ids(partition: Mapping[str, Any], field: str) -> str:
    return ", ".join(map(str, _members(partition, field))) or "none"


Decided = Mapping[tuple[str, int, int], Collection[frozenset[int]]]
"""The ISRs by topic name, partition and partition epoch; several where the name had several ids."""

_HEARS = ("replica-leader", "replica-isr")


def _not_decided(evidence: Evidence, decided: Decided, apart: Collection[str]) -> Iterator[Anomaly]:
    """Find the first such event of every node, but for topics `apart`; all are well formed."""
    for node, trace in evidence.traces.items():
        for event in trace:
            if event.event not in _HEARS:
                continue
            fields = event.fields
            name, epoch = f"{fields['topic']}-{fields['partition']}", fields["partition_epoch"]
            isrs = decided.get((fields["topic"], fields["partition"], epoch))
            if fields["topic"] in apart:
                continue
            if isrs is None or frozenset(fields["isr"]) in isrs:
                continue
            made = " or ".join(str(sorted(isr)) for isr in isrs)
            text = (
                f"{name}: {node} takes {sorted(fields['isr'])} for the ISR of partition epoch "
                f"{epoch} at {evidence.when(event)}, where the metadata log has {made}"
            )
            yield anomaly("isr-not-decided", text, partition=name, **evidence.place(event))
            break
