"""Invariants of what leaders, followers and controllers owe a partition at once.

They read events that no node traces (`harness/sim/sights/partitions.py`): `isr-answer`, a
controller agrees to an AlterPartition, with the partition epoch that was asked for and the one that
it knew to be committed when it was asked; `isr-asked`, a leader asks for a change in a partition
epoch, and the one in which it has heard of one; `held`, a leader's high watermark and up to where
all have the log that it waits for; `fetch-waits`, a follower's Fetch that waits, with log end and
high watermark as its leader has them and as it names them; `voters-wait`, a Fetch of the metadata
log that waits, with the high watermark when it came and as it is; `waits-lost`, how much waits at a
node that does not lead the metadata log; `remembered`, up to where a log goes, the last batch that
it remembers of any idempotent producer, its high watermark, and the bytes that it counts and has in
memory; `log-topic`, the topic that a replica is of and the one that its log was made for;
`producer-answer`, the sequences of a batch and of those that its leader remembers when it answers;
`producer-batches`, the sequences that a replica remembers of a producer; `acknowledged`, acks and
end of a batch that is answered without an error, and up to where its leader has committed, and what
a kill of it keeps; `deletion`, a DeleteRecords, its answer, and where the leader's log begins and
is committed; `fetch-sent`, from where a follower fetches, and up to where a kill keeps its log;
`session-sent`, begin, end and high watermark of a follower's log, and those in the session of its
Fetch, and how long it rests yet; `directory-marked`, that a log directory in use has the mark of a
clean shutdown; `directory-left`, one of a broker that ended with the mark, and the segments that a
power loss changes; `registration-sent`, the epoch of an end in order that a broker names as it
registers, that of its last one, and whether each of its log directories is there and had the mark
(the three of `harness/sim/sights/shutdowns.py`); `replica-used`, that a broker leads or follows, up
to where its metadata go, and where it is registered; `replica-placed`, the log directory that a
replica has moved to, and the one that its broker's metadata have had it in since the move began.
"""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from typing import Final

from checkers.invariants.fold import Broken, Invariant, rule, rules_of
from checkers.invariants.sight import Fields

_SEQUENCE_MAX: Final = 2**31 - 1
_OF_ALL: Final = -1
_OF_LEADER: Final = 1
"""Acks that a Produce may ask for, beside 0."""
_NO_EPOCH: Final = -1
_COMMITTED: Final = -1
"""The offset that a DeleteRecords names for the high watermark."""


@rule("isr-answer", "KIP-497, CheckVersion")
def newest_changed(node: str, fields: Fields) -> Broken | None:
    """An ISR is changed by a request that knows the newest partition epoch, and by no other."""
    if fields["asked"] >= fields["known"]:
        return None
    return Broken(
        f"{node} let {fields['leader']} change the ISR of {fields['name']} by a request of "
        f"partition epoch {fields['asked']}, when {fields['known']} was committed"
    )


@rule("isr-asked", "KIP-497; Partition.scala, handleAlterPartitionUpdate")
def changed_once(node: str, fields: Fields) -> Broken | None:
    """A leader that hears that its ISR has changed goes on from there, and asks for it no more."""
    if fields["asked"] > fields["agreed"]:
        return None
    return Broken(
        f"{node} asks again to change the ISR of {fields['name']} in partition epoch "
        f"{fields['asked']}, though it has been answered that it has changed"
    )


@rule("held", "KIP-16; KAFKA-13091")
def held_committed(node: str, fields: Fields) -> Broken | None:
    """What the ISR holds is committed at once: an ISR that has shrunk waits for nobody else."""
    if fields["high_watermark"] >= fields["held"]:
        return None
    return Broken(
        f"{node} leads {fields['name']} and calls what lies below {fields['high_watermark']} "
        f"committed, while its ISR holds all below {fields['held']}"
    )


class FetchAnswered(Invariant):
    """No Fetch of a follower waits when its leader has more, or has committed more, than it knows.

    The high watermark that a Fetch names is what the follower made of the last answer. In the
    metadata quorum it names none: there whatever waits as more is committed is answered. And who
    leads no longer lets nobody wait, for a Fetch, a commit or a read: another has what they need.
    """

    name = "fetch-answered"
    source = "KIP-227, replica.fetch.min.bytes; KAFKA-14145"

    def on_fetch_waits(self, node: str, fields: Fields) -> Broken | None:
        has, asked = fields["has"], fields["asked"]
        if has[0] <= asked[0] and has[1] <= asked[1]:
            return None
        return Broken(
            f"{node} leads {fields['name']} up to {has[0]}, committed up to {has[1]}, and lets "
            f"broker {fields['follower']} wait, which asks from {asked[0]} on and knows all below "
            f"{asked[1]} to be committed"
        )

    def on_waits_lost(self, node: str, fields: Fields) -> Broken | None:
        if not fields["count"]:
            return None
        return Broken(
            f"{node} does not lead in epoch {fields['epoch']}, and lets {fields['count']} requests "
            f"wait that came when it led"
        )

    def on_voters_wait(self, node: str, fields: Fields) -> Broken | None:
        if fields["known"] >= fields["high_watermark"]:
            return None
        return Broken(
            f"{node} leads in epoch {fields['epoch']} and has committed all below "
            f"{fields['high_watermark']}, and lets a Fetch wait on that came when it had "
            f"committed all below {fields['known']}"
        )


@rule("replica-used", "KIP-631, initialCatchUpFuture")
def caught_up_first(node: str, fields: Fields) -> Broken | None:
    """A broker opens its logs once its metadata contain its own registration.

    By older ones it would delete the logs of topics that were created since.
    """
    if fields["offset"] >= fields["broker_epoch"]:
        return None
    return Broken(
        f"{node} opened the log of {fields['name']} with metadata up to {fields['offset']}, "
        f"and is registered at offset {fields['broker_epoch']}"
    )


@rule("directory-marked", "CleanShutdownFileHandler; KIP-966")
def mark_removed(node: str, fields: Fields) -> Broken | None:
    """No log directory is in use that has the mark of a clean shutdown: a crash would pass for one.

    Its logs would be taken as they are, however their ends are torn.
    """
    return Broken(
        f"{node} uses {fields['directory']} with the mark of a clean shutdown in it still"
    )


class CleanEnds(Invariant):
    """The mark of a clean shutdown stands for logs that no power loss shortens.

    A broker names its epoch as it registers, and of no other end: only then it is still eligible.
    """

    name = "clean-ends"
    source = "KIP-966, previous broker epoch; LogManager.shutdown"

    def on_directory_left(self, node: str, fields: Fields) -> Broken | None:
        if not fields["lost"]:
            return None
        return Broken(
            f"{node} left the mark of a clean shutdown in {fields['directory']}, and a power loss "
            f"changes {fields['lost'][0]}"
        )

    def on_registration_sent(self, node: str, fields: Fields) -> Broken | None:
        previous, last = fields["previous"], fields["last"]
        if previous == last or (previous == _NO_EPOCH and not fields["is_known"]):
            return None
        ended = "did not end in order" if last == _NO_EPOCH else f"ended in order in epoch {last}"
        names = "no end" if previous == _NO_EPOCH else f"its end in epoch {previous}"
        return Broken(f"{node} {ended}, and names {names} in order as it registers")


@rule("replica-placed", "KIP-858, ReplicaAlterLogDirsThread; KAFKA-16082")
def moved_as_assigned(node: str, fields: Fields) -> Broken | None:
    """A replica moves to another log directory once the metadata have it there.

    Else the loss of that directory counts for nothing: its broker leads on in the metadata.
    """
    if fields["assigned"] == fields["to"]:
        return None
    return Broken(
        f"{node} has moved {fields['name']} to {fields['to_dir']}, directory {fields['to']}, "
        f"and has metadata by which it is in {fields['assigned']}"
    )


@rule("remembered", "KIP-98; Partition, min(leader's high watermark, log end); fetch.min.bytes")
def remembered_in_log(node: str, fields: Fields) -> Broken | None:
    """What a replica remembers of producers is in its log: the rest is no duplicate.

    And so is what it calls committed, whatever its leader has, and what it counts for a Fetch that
    waits for so many bytes.
    """
    held = f"{node} holds {fields['name']} up to {fields['log_end']}"
    if fields["remembered_end"] > fields["log_end"]:
        remembered_end = fields["remembered_end"]
        return Broken(f"{held} and takes what a producer sent up to {remembered_end} for held")
    if fields["high_watermark"] > fields["log_end"]:
        return Broken(f"{held} and calls all below {fields['high_watermark']} committed")
    if fields["counted_bytes"] != fields["held_bytes"]:
        counted_bytes = fields["counted_bytes"]
        return Broken(f"{held} and counts {counted_bytes} bytes for {fields['held_bytes']}")
    return None


@rule("log-topic", "KIP-516, partition.metadata; KAFKA-14616")
def own_topic(node: str, fields: Fields) -> Broken | None:
    """A replica's log is of its topic, and of no earlier topic of the same name."""
    if fields["held"] == fields["topic"]:
        return None
    return Broken(
        f"{node} uses for {fields['name']} of topic {fields['topic']} a log that was made for "
        f"topic {fields['held']}"
    )


@rule("acknowledged", "acks of producers; DelayedProduce; KIP-98")
def acks_awaited(node: str, fields: Fields) -> Broken | None:
    """A leader answers a Produce once the acks are there that it asks for, also a retry's.

    All that are in sync have what is committed. What a kill of the leader takes is no ack of its
    own.
    """
    acks, end = fields["acks"], fields["end"]
    has, what = fields["written_end"], "keeps if it is killed"
    if acks == _OF_ALL and fields["high_watermark"] < end:
        has, what = fields["high_watermark"], "has committed"
    if has >= end or acks not in (_OF_ALL, _OF_LEADER):
        return None
    return Broken(
        f"{node} leads {fields['name']} and has answered a Produce with acks {acks} of what "
        f"lies below {end}, while it {what} all below {has}"
    )


@rule("fetch-sent", "ReplicaFetcherThread; acks of producers")
def fetched_written(node: str, fields: Fields) -> Broken | None:
    """A follower fetches from where a kill keeps its log: what lies below it acknowledges."""
    if fields["offset"] <= fields["kept"]:
        return None
    return Broken(
        f"{node} follows {fields['name']} and fetches from {fields['offset']} on, while it "
        f"keeps what lies below {fields['kept']} if it is killed"
    )


@rule("session-sent", "KIP-227; replica.fetch.backoff.ms; KIP-107")
def session_known(node: str, fields: Fields) -> Broken | None:
    """By its Fetches a leader knows where a follower's log begins and ends, and what it committed.

    A session names what has changed, whatever changed it: a DeleteRecords waits for the begin. And
    it leaves out what has failed, for as long as that rests.
    """
    session, log = fields["session"], fields["log"]
    says = f"{node} follows {fields['name']} and"
    if session != log:
        return Broken(
            f"{says} has begin, end and high watermark {log}, and fetches in a session that has "
            f"{session}"
        )
    if fields["rests_ms"] > 0:
        return Broken(f"{says} fetches it {fields['rests_ms']:.0f} ms before its rest is over")
    return None


@rule("deletion", "KIP-107, DeleteRecords")
def deletes_asked(node: str, fields: Fields) -> Broken | None:
    """A leader deletes the records that it is asked to, up to its high watermark, and no others.

    It answers once its own log and those of all replicas that are alive begin there or later.

    Judge the answer to a DeleteRecords; there may be other reasons to refuse one.
    """
    asked, answer, (start, high_watermark) = fields["asked"], fields["answer"], fields["log"]
    says = f"{node} leads {fields['name']} from {start}, committed up to {high_watermark}, "
    says += f"is asked to delete all below {asked} and answers"
    may = _COMMITTED <= asked <= high_watermark
    match answer:
        case None:
            return Broken(f"{says} nothing of it")
        case "none", low_watermark if not may or not asked <= low_watermark <= start:
            return Broken(f"{says} that all logs begin at {low_watermark} or later")
        case ("offset_out_of_range" | "policy_violation") as error, _ if may:
            return Broken(f"{says} {error}")
    return None


class Sequences(Invariant):
    """A producer's batches follow one another in a log, and those remembered are not refused.

    Of a producer that a log does not know any sequence is taken; from there on the next one alone.
    And what one replica remembers of a batch, others remember, also when they have loaded it.
    """

    name = "sequences"
    source = "KIP-98; KAFKA-5494"

    _first: dict[tuple[str, int, int, int, int], int] = field(default_factory=dict)
    """By partition, producer, its epoch, last sequence and last offset of a batch: its first
    sequence."""

    def on_producer_answer(self, node: str, fields: Fields) -> Broken | None:
        if fields["error"] == "out_of_order_sequence_number" and fields["asked"] in fields["held"]:
            first, last = fields["asked"]
            return Broken(
                f"{node} leads {fields['name']} and refused sequences {first} to {last} of "
                f"producer {fields['producer']}, though it remembers that batch"
            )
        return None

    def on_producer_batches(self, node: str, fields: Fields) -> Broken | None:
        """Judge what a replica remembers of a producer: first and last sequences, last offsets."""
        batches, of_producer = fields["batches"], (fields["name"], fields["producer"])
        what = f"{node} holds {fields['name']} and remembers, of producer {fields['producer']},"
        for (_, last, _), (first, _, _) in pairwise(batches):
            if first != (last + 1) & _SEQUENCE_MAX:
                return Broken(f"{what} sequence {first} behind {last}")
        for first, last, offset in batches:
            at = (*of_producer, fields["epoch"], last, offset)
            known = self._first.setdefault(at, first)
            if known != first:
                return Broken(
                    f"{what} sequences {first} to {last} up to offset {offset}, where others "
                    f"remember {known} to {last}"
                )
        return None


PARTITIONS = rules_of(__name__)
