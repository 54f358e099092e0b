"""Every alteration of the bench, and the verdict that it must get.

FAIL is for what cannot be there in a true run: two pieces of evidence, each whole, contradict each
other. UNKNOWN is for evidence that is damaged or lacks a part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from checkers.verdict import Status
from tests.alterations import files, lines
from tests.alterations.lines import ALL, FOLLOWER, LEADER, RESTARTED, restate, trace
from tests.alterations.runs import NODES, Alteration, Change, Row

R, A, P = "register", "append", "partitions"
RAP = (R, A, P)
FILES, INVARIANTS, RECORDS = "evidence-files", "invariants", "records"
DURABILITY, AGREEMENT, SNAPSHOTS = "durability", "log-agreement", "snapshots"


def _a(
    status: Status,
    name: str,
    change: Change,
    check: str = INVARIANTS,
    runs: tuple[str, ...] = RAP,
    *,
    alone: str | None = None,
) -> Alteration:
    return Alteration(name, change, status, check, runs, alone)


_fails, _doubts = partial(_a, Status.FAIL), partial(_a, Status.UNKNOWN)


def _wrong_read(
    name: str,
    change: Callable[[Row], None],
    nodes: tuple[str, ...] = NODES,
    check: str = RECORDS,
    runs: tuple[str, ...] = RAP,
) -> Alteration:
    """Final reads of nodes show what they should not."""
    return _fails(name, files.read_changed(change, *nodes), check, runs)


LOGS = (
    _doubts("one bit flipped in a record in the middle of a log", files.bit_of_a_record, FILES),
    _doubts("one bit flipped in a length in the middle of a log", files.bit_of_a_length, FILES),
    _doubts("one bit flipped in the last length of a log", files.bit_of_the_last_length, FILES),
    _doubts(
        "one bit flipped in a record, and the log decoded again",
        files.decoded(files.bit_of_a_record, "n1"),
        AGREEMENT,
    ),
    _doubts(
        "one bit flipped in a length, and the log decoded again",
        files.decoded(files.bit_of_a_length, "n2"),
        AGREEMENT,
    ),
    _doubts(
        "one bit flipped in the last length, and the log decoded again",
        files.decoded(files.bit_of_the_last_length, "n3"),
        AGREEMENT,
    ),
    _doubts("a log cut behind a batch, its decode as it was", files.raw_cut_at_a_batch, FILES),
    _doubts("a log cut in a batch, its decode as it was", files.raw_cut_in_a_batch, FILES),
    _doubts(
        "a log cut in a batch that was flushed, and decoded again",
        files.decoded(files.raw_cut_in_a_batch, "n2"),
        AGREEMENT,
    ),
    _doubts("half a batch behind the end, all before it flushed", files.torn_behind_the_end),
    _doubts("a node's log gone", files.raw_log_gone, FILES),
    _fails("a log that ends below its own flush and mark", files.end_cut("n1")),
    _fails("two logs that end below what was committed", files.end_cut("n1", "n2"), AGREEMENT),
    _fails("all logs end below what was committed", files.end_cut(*NODES)),
    _fails("a client's value changed in all logs", files.values_changed(*NODES), RECORDS, (R, A)),
    _fails(
        "a client's last value changed in all logs",
        files.values_changed(*NODES, number=-1),
        RECORDS,
        (R, A),
    ),
    _fails("a client's value changed in one log", files.values_changed("n2"), runs=(R, A)),
    _fails("a client's record made nothing in all logs", files.made_nothing(*NODES), RECORDS),
    _fails("a client's record made nothing in one log", files.made_nothing("n3")),
    _fails("two writes of a register swapped in all logs", files.writes_swapped, RECORDS, (R,)),
    _doubts(
        "a vote that nobody gave in a leader's record",
        files.vote_named,
        runs=(R,),
        alone="granted-votes",
    ),
    _doubts("a batch given a later epoch in one log", files.epoch_changed, AGREEMENT),
    _doubts("a batch that nobody sent at one log's end", files.record_added("n1")),
    _doubts("a batch that nobody sent at all logs' ends", files.record_added(*NODES), runs=(A, P)),
    _doubts("a value changed in every stored decode", files.stored_values_changed, FILES),
    _doubts("the end of a stored decode cut", files.stored_log_cut, FILES),
    _doubts(
        "a stored decode's quorum state gone", files.gone("nodes/n1/evidence/quorum-state.json")
    ),
    _doubts(
        "a stored decode's snapshots gone", files.gone("nodes/n2/evidence/snapshots.jsonl"), FILES
    ),
)

SNAPSHOT_FILES = (
    _fails("a snapshot gone that was announced", files.snapshot_gone),
    _fails("a snapshot that holds another value", files.snapshot_changed, SNAPSHOTS),
    _doubts("one bit flipped in a snapshot", files.bit_of_a_snapshot, FILES),
    _doubts("records gone from a snapshot's decode", files.stored_snapshot_record_gone, FILES),
    _fails("a snapshot under another name", files.snapshot_beside, SNAPSHOTS),
)

READS = (
    _wrong_read(
        "an acknowledged element missing in one node's final read",
        files.element_missing,
        ("n2",),
        DURABILITY,
    ),
    _wrong_read(
        "an acknowledged element missing in all final reads",
        files.element_missing,
        check=DURABILITY,
    ),
    _wrong_read(
        "an element missing in the middle of a list in all final reads",
        files.element_in_the_middle_missing,
        check=DURABILITY,
        runs=(A,),
    ),
    _wrong_read("two elements swapped in all final reads", files.elements_swapped, runs=(A,)),
    _wrong_read("an element of nobody in all final reads", files.element_of_nobody),
    _wrong_read("another topic id in all final reads", files.other_topic_id, runs=(P,)),
    _wrong_read("a topic that no log holds in one final read", files.topic_of_nobody, ("n1",)),
    _wrong_read("a topic missing in all final reads", files.topic_missing, runs=(P,)),
    _wrong_read("a final read above the end of every log", files.mark_above_all, ("n1",)),
    _wrong_read("the sentinel gone from all final reads", files.sentinel_gone, runs=(R,)),
    _wrong_read(
        "a configuration that no log holds in all final reads", files.config_of_nobody, runs=(R,)
    ),
    _doubts("a final read gone", files.gone("nodes/n3/evidence/state.jsonl"), DURABILITY),
    _doubts("one node's final read for another's", files.read_of_another, DURABILITY),
)

QUORUM_STATES = (
    _fails(
        "a quorum state of an older epoch", files.quorum_state("n2", leaderEpoch=0, leaderId=-1)
    ),
    _fails("a quorum state with another vote", files.with_other_vote),
    _fails("a quorum state without its vote", files.without_vote),
    _fails("a quorum state with another leader", files.with_other_leader),
    _doubts(
        "a quorum state of an epoch for which nobody stood",
        files.quorum_state("n2", leaderEpoch=lambda e: e + 3),
    ),
    _fails(
        "a quorum state that lacks a voter",
        files.quorum_state("n2", currentVoters=lambda v: v[:-1]),
    ),
)

TRACES = (
    _doubts("time goes back for one line", trace(FOLLOWER, lines.times_swapped)),
    _doubts("two lines swapped", trace(LEADER, lines.lines_swapped)),
    _fails("a process by earlier times", trace(RESTARTED, lines.incarnation_earlier), RECORDS),
    _doubts("the last 40 % of a leader's trace gone", trace(LEADER, lines.end_gone)),
    _doubts("the last 40 % of a follower's trace gone", trace(FOLLOWER, lines.end_gone)),
    _doubts("the last 40 % gone, the noted length kept", lines.raw_end_gone, FILES),
    _doubts("all traces end at one time", lines.ends_gone_at_one_time),
    _fails("the middle third of a trace gone", trace(LEADER, lines.middle_gone)),
    _doubts("the first process gone", trace(RESTARTED, lines.first_incarnation_gone)),
    _doubts(
        "the first process gone, the others renumbered",
        trace(RESTARTED, lines.first_incarnation_gone_and_renumbered),
    ),
    _doubts("the last process gone", trace(RESTARTED, lines.last_incarnation_gone)),
    _doubts("the start of a process gone", trace(RESTARTED, lines.start_gone)),
    _doubts("two processes made one", trace(RESTARTED, lines.incarnations_merged)),
    _doubts("a line doubled", trace(FOLLOWER, lines.line_doubled)),
    _doubts("thirty lines doubled", trace(LEADER, lines.lines_doubled)),
    _fails("an append doubled", trace(LEADER, lines.append_doubled)),
    _doubts("the acknowledgements gone", trace(ALL, lines.without("ack")), RECORDS),
    _doubts("the reads gone", trace(ALL, lines.without("read")), RECORDS),
    _fails("the flushes gone", trace(FOLLOWER, lines.without("flush"))),
    _doubts("the votes gone", trace(ALL, lines.without("vote", "state"))),
    _doubts("a trace gone", files.gone("nodes/n2/trace.jsonl")),
    _doubts("half a line in the middle", lines.half_a_line, FILES, (R,)),
    _doubts("another digit in a line", lines.a_digit, FILES, (R,)),
    _fails(
        "a fetch above the node's flush",
        trace(FOLLOWER, restate("fetch", 0.9, offset=5, durable_end_offset=5)),
    ),
    _fails("a fetch above its own word", trace(FOLLOWER, restate("fetch", 0.9, offset=5))),
    _fails(
        "an acknowledgement above the mark",
        trace(LEADER, restate("ack", offset=100_000, high_watermark=200_000)),
    ),
    _fails(
        "an acknowledgement above every log, and a mark that covers it",
        trace(LEADER, lines.ack_beyond_logs),
    ),
    _fails("an acknowledgement in an older epoch", trace(LEADER, restate("ack", epoch=-1))),
    _fails("a read in an older epoch", trace(LEADER, restate("read", epoch=-1))),
    _fails(
        "a read without confirmation", trace(LEADER, restate("read", confirmed=False)), runs=(R,)
    ),
    _fails("a read above the mark", trace(LEADER, restate("read", offset=100_000))),
    _fails("voters that lack a voter on one node", trace(FOLLOWER, lines.lacks_a_voter)),
    _fails("a voter too many on one node", trace(RESTARTED, lines.knows_one_voter_more)),
    _fails("a mark counted without a voter", trace(LEADER, lines.counts_without_a_voter)),
    _fails("a follower counted beyond its fetches", trace(LEADER, lines.counts_too_much)),
    _fails(
        "bytes truncated at a first start",
        trace(FOLLOWER, restate("recovered", 0.0, truncated_bytes=77)),
    ),
    _fails(
        "bytes truncated though all was flushed",
        trace(RESTARTED, restate("recovered", truncated_bytes=77)),
    ),
    _fails(
        "more recovered than was appended", trace(RESTARTED, restate("recovered", end_offset=50))
    ),
    _fails(
        "less recovered than was flushed", trace(RESTARTED, restate("recovered", end_offset=-5))
    ),
    _fails(
        "more flushed than was appended", trace(FOLLOWER, restate("flush", 0.5, end_offset=500))
    ),
    _fails("a follower's mark above its leader's", trace(FOLLOWER, restate("hw", 0.7, offset=2))),
    _fails("a log cut below its mark", trace(FOLLOWER, lines.cut_below_the_mark)),
    _fails("a second leader of an epoch", trace(FOLLOWER, lines.leads_too)),
    _fails("a claim of another epoch", trace(LEADER, restate("claim", epoch=1))),
    _fails("an epoch that goes back", trace(FOLLOWER, lines.went_back_an_epoch)),
    _doubts(
        "a process in another directory",
        trace(RESTARTED, restate("start", directory_id="11111111-2222-3333-4444-555555555555")),
    ),
    _fails(
        "a snapshot of more than was committed", trace(LEADER, restate("snapshot", offset=100_000))
    ),
    _fails("a snapshot that is not on the disk", trace(FOLLOWER, lines.newer_snapshot)),
    _fails(
        "a commit above every log", trace(LEADER, restate("commit", last_offset=10_000)), runs=(R,)
    ),
    _fails(
        "a log recovered in another epoch",
        trace(RESTARTED, restate("recovered", last_epoch=5)),
        runs=(R,),
    ),
    _doubts(
        "all traces of another clock",
        trace(ALL, lines.starts_say(clock="that of another host")),
        RECORDS,
        (R,),
    ),
    _fails(
        "a read from a state before the last answer",
        trace(LEADER, restate("read", 0.9, offset=-10)),
        runs=(R,),
    ),
    _fails("the votes denied", trace(ALL, lines.votes_denied), runs=(R,)),
    _doubts("a process that ended without a fault", lines.process_without_a_fault, runs=(R,)),
    _doubts("a line of a node that was dead", lines.served_while_dead, runs=(R,)),
    _fails(
        "a read from below what was committed before it",
        lines.read_before_the_mark,
        RECORDS,
        (R,),
        alone="stale-answer",
    ),
    _doubts("a process of another id", trace(RESTARTED, lines.starts_say(pid=4711))),
    _doubts(
        "a longer time-out than the plan's",
        trace(ALL, lines.starts_say(check_quorum_timeout_ms=60_000.0)),
        runs=(R,),
    ),
    _doubts(
        "a start of a mutant",
        trace(FOLLOWER, lines.starts_say(mutant="M31-stale-reads")),
        runs=(R,),
    ),
    _doubts("a start of another node", trace(FOLLOWER, lines.starts_say(node_id=1)), runs=(R,)),
)

JOURNAL = (
    _fails("an acknowledged write called a failure", lines.ack_called_a_failure, RECORDS),
    _fails("an acknowledged write in no line", lines.write_removed, RECORDS),
    _fails("an acknowledged write that nobody made", lines.write_invented, RECORDS),
    _fails("a read of what nobody wrote", lines.read_of_nobody, "linearizable"),
    _doubts("the last 30 % of the journal gone", lines.end_of_journal_gone, "journal"),
    _doubts("nine of ten reads in no line", lines.reads_removed, RECORDS, (R,)),
    _doubts("no completion names a node", lines.nodes_of_completions_gone, RECORDS, (R,)),
    _doubts("completions 12 s behind their lines", lines.completed_late, RECORDS, (R,)),
    _doubts("a journal of another clock", lines.journal_of_another_clock, RECORDS, (R,)),
    _fails(
        "a write invoked after those that stand behind it", lines.write_invoked_late, RECORDS, (R,)
    ),
    _fails(
        "a read that shows what was before the last write",
        lines.read_of_the_value_before,
        RECORDS,
        (R,),
        alone="answer-differs",
    ),
    _doubts("an acknowledgement by another node", lines.answered_by_another, RECORDS),
)

PLANS = (
    _doubts("a plan without its check of durability", lines.plan_without(DURABILITY), FILES),
    _doubts("a plan without its check of invariants", lines.plan_without(INVARIANTS), FILES),
    _doubts("a plan of no known workload", lines.plan_of_another_workload, FILES, (R,)),
    _doubts("a plan by which nothing is traced", lines.plan_traces_nothing, FILES, (R,)),
)

ALTERATIONS = (*LOGS, *SNAPSHOT_FILES, *READS, *QUORUM_STATES, *TRACES, *JOURNAL, *PLANS)
CASES = [(alteration, run) for alteration in ALTERATIONS for run in alteration.runs]
