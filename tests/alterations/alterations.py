"""Every alteration of the bench, and the verdict that it must get.

FAIL is for what cannot be there in a true run: two pieces of evidence, each whole, contradict each
other. UNKNOWN is for evidence that is damaged or lacks a part.
"""

from __future__ import annotations

from checkers.verdict import Status
from tests.alterations import files, lines
from tests.alterations.lines import ALL, FOLLOWER, LEADER, RESTARTED, trace
from tests.alterations.runs import NODES, Alteration, Change

R, A, P = "register", "append", "partitions"
RAP = (R, A, P)
FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN
FILES, INVARIANTS, RECORDS = "evidence-files", "invariants", "records"
DURABILITY, AGREEMENT, SNAPSHOTS = "durability", "log-agreement", "snapshots"


def _a(
    name: str,
    change: Change,
    status: Status,
    check: str,
    runs: tuple[str, ...] = RAP,
    *,
    alone: str | None = None,
) -> Alteration:
    return Alteration(name, change, status, check, runs, alone)


LOGS = (
    _a("one bit flipped in a record in the middle of a log", files.bit_of_a_record, UNKNOWN, FILES),
    _a("one bit flipped in a length in the middle of a log", files.bit_of_a_length, UNKNOWN, FILES),
    _a("one bit flipped in the last length of a log", files.bit_of_the_last_length, UNKNOWN, FILES),
    _a(
        "one bit flipped in a record, and the log decoded again",
        files.decoded(files.bit_of_a_record, "n1"),
        UNKNOWN,
        AGREEMENT,
    ),
    _a(
        "one bit flipped in a length, and the log decoded again",
        files.decoded(files.bit_of_a_length, "n2"),
        UNKNOWN,
        AGREEMENT,
    ),
    _a(
        "one bit flipped in the last length, and the log decoded again",
        files.decoded(files.bit_of_the_last_length, "n3"),
        UNKNOWN,
        AGREEMENT,
    ),
    _a("a log cut behind a batch, its decode as it was", files.raw_cut_at_a_batch, UNKNOWN, FILES),
    _a("a log cut in a batch, its decode as it was", files.raw_cut_in_a_batch, UNKNOWN, FILES),
    _a(
        "a log cut in a batch that was flushed, and decoded again",
        files.decoded(files.raw_cut_in_a_batch, "n2"),
        UNKNOWN,
        AGREEMENT,
    ),
    _a(
        "half a batch behind the end, all before it flushed",
        files.torn_behind_the_end,
        UNKNOWN,
        INVARIANTS,
    ),
    _a("a node's log gone", files.raw_log_gone, UNKNOWN, FILES),
    _a("a log that ends below its own flush and mark", files.end_cut("n1"), FAIL, INVARIANTS),
    _a("two logs that end below what was committed", files.end_cut("n1", "n2"), FAIL, AGREEMENT),
    _a("all logs end below what was committed", files.end_cut(*NODES), FAIL, INVARIANTS),
    _a("a client's value changed in all logs", files.values_changed(*NODES), FAIL, RECORDS, (R, A)),
    _a(
        "a client's last value changed in all logs",
        files.values_changed(*NODES, number=-1),
        FAIL,
        RECORDS,
        (R, A),
    ),
    _a("a client's value changed in one log", files.values_changed("n2"), FAIL, INVARIANTS, (R, A)),
    _a("a client's record made nothing in all logs", files.made_nothing(*NODES), FAIL, RECORDS),
    _a("a client's record made nothing in one log", files.made_nothing("n3"), FAIL, INVARIANTS),
    _a("two writes of a register swapped in all logs", files.writes_swapped, FAIL, RECORDS, (R,)),
    _a(
        "a vote that nobody gave in a leader's record",
        files.vote_named,
        UNKNOWN,
        INVARIANTS,
        (R,),
        alone="granted-votes",
    ),
    _a("a batch given a later epoch in one log", files.epoch_changed, UNKNOWN, AGREEMENT),
    _a("a batch that nobody sent at one log's end", files.record_added("n1"), UNKNOWN, INVARIANTS),
    _a(
        "a batch that nobody sent at all logs' ends",
        files.record_added(*NODES),
        UNKNOWN,
        INVARIANTS,
        (A, P),
    ),
    _a("a value changed in every stored decode", files.stored_values_changed, UNKNOWN, FILES),
    _a("the end of a stored decode cut", files.stored_log_cut, UNKNOWN, FILES),
    _a(
        "a stored decode's quorum state gone",
        files.gone("nodes/n1/evidence/quorum-state.json"),
        UNKNOWN,
        INVARIANTS,
    ),
    _a(
        "a stored decode's snapshots gone",
        files.gone("nodes/n2/evidence/snapshots.jsonl"),
        UNKNOWN,
        FILES,
    ),
)

SNAPSHOT_FILES = (
    _a("a snapshot gone that was announced", files.snapshot_gone, FAIL, INVARIANTS),
    _a("a snapshot that holds another value", files.snapshot_changed, FAIL, SNAPSHOTS),
    _a("one bit flipped in a snapshot", files.bit_of_a_snapshot, UNKNOWN, FILES),
    _a("records gone from a snapshot's decode", files.stored_snapshot_record_gone, UNKNOWN, FILES),
    _a("a snapshot under another name", files.snapshot_beside, FAIL, SNAPSHOTS),
)

READS = (
    _a(
        "an acknowledged element missing in one node's final read",
        files.read_changed(files.element_missing, "n2"),
        FAIL,
        DURABILITY,
    ),
    _a(
        "an acknowledged element missing in all final reads",
        files.read_changed(files.element_missing, *NODES),
        FAIL,
        DURABILITY,
    ),
    _a(
        "an element missing in the middle of a list in all final reads",
        files.read_changed(files.element_in_the_middle_missing, *NODES),
        FAIL,
        DURABILITY,
        (A,),
    ),
    _a(
        "two elements swapped in all final reads",
        files.read_changed(files.elements_swapped, *NODES),
        FAIL,
        RECORDS,
        (A,),
    ),
    _a(
        "an element of nobody in all final reads",
        files.read_changed(files.element_of_nobody, *NODES),
        FAIL,
        RECORDS,
    ),
    _a(
        "another topic id in all final reads",
        files.read_changed(files.other_topic_id, *NODES),
        FAIL,
        RECORDS,
        (P,),
    ),
    _a(
        "a topic that no log holds in one final read",
        files.read_changed(files.topic_of_nobody, "n1"),
        FAIL,
        RECORDS,
    ),
    _a(
        "a topic missing in all final reads",
        files.read_changed(files.topic_missing, *NODES),
        FAIL,
        RECORDS,
        (P,),
    ),
    _a(
        "a final read above the end of every log",
        files.read_changed(files.mark_above_all, "n1"),
        FAIL,
        RECORDS,
    ),
    _a(
        "the sentinel gone from all final reads",
        files.read_changed(files.sentinel_gone, *NODES),
        FAIL,
        RECORDS,
        (R,),
    ),
    _a(
        "a configuration that no log holds in all final reads",
        files.read_changed(files.config_of_nobody, *NODES),
        FAIL,
        RECORDS,
        (R,),
    ),
    _a("a final read gone", files.gone("nodes/n3/evidence/state.jsonl"), UNKNOWN, DURABILITY),
)

QUORUM_STATES = (
    _a(
        "a quorum state of an older epoch",
        files.quorum_state("n2", leaderEpoch=0, leaderId=-1),
        FAIL,
        INVARIANTS,
    ),
    _a("a quorum state with another vote", files.with_other_vote, FAIL, INVARIANTS),
    _a("a quorum state without its vote", files.without_vote, FAIL, INVARIANTS),
    _a("a quorum state with another leader", files.with_other_leader, FAIL, INVARIANTS),
    _a(
        "a quorum state of an epoch for which nobody stood",
        files.quorum_state("n2", leaderEpoch=lambda e: e + 3),
        UNKNOWN,
        INVARIANTS,
    ),
    _a(
        "a quorum state that lacks a voter",
        files.quorum_state("n2", currentVoters=lambda v: v[:-1]),
        FAIL,
        INVARIANTS,
    ),
)

TRACES = (
    _a("time goes back for one line", trace(FOLLOWER, lines.times_swapped), UNKNOWN, INVARIANTS),
    _a("two lines swapped", trace(LEADER, lines.lines_swapped), UNKNOWN, INVARIANTS),
    _a(
        "a process by earlier times",
        trace(RESTARTED, lines.incarnation_earlier),
        FAIL,
        RECORDS,
    ),
    _a(
        "the last 40 % of a leader's trace gone", trace(LEADER, lines.end_gone), UNKNOWN, INVARIANTS
    ),
    _a(
        "the last 40 % of a follower's trace gone",
        trace(FOLLOWER, lines.end_gone),
        UNKNOWN,
        INVARIANTS,
    ),
    _a("the last 40 % gone, the noted length kept", lines.raw_end_gone, UNKNOWN, FILES),
    _a("all traces end at one time", lines.ends_gone_at_one_time, UNKNOWN, INVARIANTS),
    _a("the middle third of a trace gone", trace(LEADER, lines.middle_gone), FAIL, INVARIANTS),
    _a(
        "the first process gone",
        trace(RESTARTED, lines.first_incarnation_gone),
        UNKNOWN,
        INVARIANTS,
    ),
    _a(
        "the first process gone, the others renumbered",
        trace(RESTARTED, lines.first_incarnation_gone_and_renumbered),
        UNKNOWN,
        INVARIANTS,
    ),
    _a("the last process gone", trace(RESTARTED, lines.last_incarnation_gone), UNKNOWN, INVARIANTS),
    _a("the start of a process gone", trace(RESTARTED, lines.start_gone), UNKNOWN, INVARIANTS),
    _a("two processes made one", trace(RESTARTED, lines.incarnations_merged), UNKNOWN, INVARIANTS),
    _a("a line doubled", trace(FOLLOWER, lines.line_doubled), UNKNOWN, INVARIANTS),
    _a("thirty lines doubled", trace(LEADER, lines.lines_doubled), UNKNOWN, INVARIANTS),
    _a("an append doubled", trace(LEADER, lines.append_doubled), FAIL, INVARIANTS),
    _a("the acknowledgements gone", trace(ALL, lines.without("ack")), UNKNOWN, RECORDS),
    _a("the reads gone", trace(ALL, lines.without("read")), UNKNOWN, RECORDS),
    _a("the flushes gone", trace(FOLLOWER, lines.without("flush")), FAIL, INVARIANTS),
    _a("the votes gone", trace(ALL, lines.without("vote", "state")), UNKNOWN, INVARIANTS),
    _a("a trace gone", files.gone("nodes/n2/trace.jsonl"), UNKNOWN, INVARIANTS),
    _a("half a line in the middle", lines.half_a_line, UNKNOWN, FILES, (R,)),
    _a("another digit in a line", lines.a_digit, UNKNOWN, FILES, (R,)),
    _a(
        "a fetch above the node's flush",
        trace(FOLLOWER, lines.fetched_beyond_flush),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a fetch above its own word",
        trace(FOLLOWER, lines.fetched_beyond_own_word),
        FAIL,
        INVARIANTS,
    ),
    _a("an acknowledgement above the mark", trace(LEADER, lines.ack_beyond_all), FAIL, INVARIANTS),
    _a(
        "an acknowledgement above every log, and a mark that covers it",
        trace(LEADER, lines.ack_beyond_logs),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "an acknowledgement in an older epoch",
        trace(LEADER, lines.ack_in_an_older_epoch),
        FAIL,
        INVARIANTS,
    ),
    _a("a read in an older epoch", trace(LEADER, lines.read_in_an_older_epoch), FAIL, INVARIANTS),
    _a(
        "a read without confirmation", trace(LEADER, lines.read_unconfirmed), FAIL, INVARIANTS, (R,)
    ),
    _a("a read above the mark", trace(LEADER, lines.read_beyond_all), FAIL, INVARIANTS),
    _a(
        "voters that lack a voter on one node",
        trace(FOLLOWER, lines.lacks_a_voter),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a voter too many on one node",
        trace(RESTARTED, lines.knows_one_voter_more),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a mark counted without a voter",
        trace(LEADER, lines.counts_without_a_voter),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a follower counted beyond its fetches",
        trace(LEADER, lines.counts_too_much),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "bytes truncated at a first start",
        trace(FOLLOWER, lines.truncated_at_first),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "bytes truncated though all was flushed",
        trace(RESTARTED, lines.truncated_behind_a_flush),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "more recovered than was appended", trace(RESTARTED, lines.recovered_more), FAIL, INVARIANTS
    ),
    _a("less recovered than was flushed", trace(RESTARTED, lines.recovered_less), FAIL, INVARIANTS),
    _a("more flushed than was appended", trace(FOLLOWER, lines.flushed_more), FAIL, INVARIANTS),
    _a(
        "a follower's mark above its leader's",
        trace(FOLLOWER, lines.marked_beyond_the_leader),
        FAIL,
        INVARIANTS,
    ),
    _a("a log cut below its mark", trace(FOLLOWER, lines.cut_below_the_mark), FAIL, INVARIANTS),
    _a("a second leader of an epoch", trace(FOLLOWER, lines.leads_too), FAIL, INVARIANTS),
    _a("a claim of another epoch", trace(LEADER, lines.claimed_twice), FAIL, INVARIANTS),
    _a("an epoch that goes back", trace(FOLLOWER, lines.went_back_an_epoch), FAIL, INVARIANTS),
    _a(
        "a process in another directory",
        trace(RESTARTED, lines.other_directory),
        UNKNOWN,
        INVARIANTS,
    ),
    _a(
        "a snapshot of more than was committed",
        trace(LEADER, lines.snapshot_of_more),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a snapshot that is not on the disk",
        trace(FOLLOWER, lines.newer_snapshot),
        FAIL,
        INVARIANTS,
    ),
    _a(
        "a commit above every log",
        trace(LEADER, lines.committed_beyond_all),
        FAIL,
        INVARIANTS,
        (R,),
    ),
    _a(
        "a log recovered in another epoch",
        trace(RESTARTED, lines.recovered_in_another_epoch),
        FAIL,
        INVARIANTS,
        (R,),
    ),
    _a("all traces of another clock", trace(ALL, lines.another_clock), UNKNOWN, RECORDS, (R,)),
    _a(
        "a read from a state before the last answer",
        trace(LEADER, lines.read_of_an_earlier_state),
        FAIL,
        INVARIANTS,
        (R,),
    ),
    _a("the votes denied", trace(ALL, lines.votes_denied), FAIL, INVARIANTS, (R,)),
    _a(
        "a process that ended without a fault",
        lines.process_without_a_fault,
        UNKNOWN,
        INVARIANTS,
        (R,),
    ),
    _a("a line of a node that was dead", lines.served_while_dead, UNKNOWN, INVARIANTS, (R,)),
    _a(
        "a read from below what was committed before it",
        lines.read_before_the_mark,
        FAIL,
        RECORDS,
        (R,),
        alone="stale-answer",
    ),
    _a(
        "a process of another id",
        trace(RESTARTED, lines.starts_say(pid=4711)),
        UNKNOWN,
        INVARIANTS,
    ),
    _a(
        "a longer time-out than the plan's",
        trace(ALL, lines.starts_say(check_quorum_timeout_ms=60_000.0)),
        UNKNOWN,
        INVARIANTS,
        (R,),
    ),
    _a(
        "a start of a mutant",
        trace(FOLLOWER, lines.starts_say(mutant="M31-stale-reads")),
        UNKNOWN,
        INVARIANTS,
        (R,),
    ),
    _a(
        "a start of another node",
        trace(FOLLOWER, lines.starts_say(node_id=1)),
        UNKNOWN,
        INVARIANTS,
        (R,),
    ),
)

JOURNAL = (
    _a("an acknowledged write called a failure", lines.ack_called_a_failure, FAIL, RECORDS),
    _a("an acknowledged write in no line", lines.write_removed, FAIL, RECORDS),
    _a("an acknowledged write that nobody made", lines.write_invented, FAIL, RECORDS),
    _a("a read of what nobody wrote", lines.read_of_nobody, FAIL, "linearizable"),
    _a("the last 30 % of the journal gone", lines.end_of_journal_gone, UNKNOWN, "journal"),
    _a("nine of ten reads in no line", lines.reads_removed, UNKNOWN, RECORDS, (R,)),
    _a("no completion names a node", lines.nodes_of_completions_gone, UNKNOWN, RECORDS, (R,)),
    _a("completions 12 s behind their lines", lines.completed_late, UNKNOWN, RECORDS, (R,)),
    _a("a journal of another clock", lines.journal_of_another_clock, UNKNOWN, RECORDS, (R,)),
    _a(
        "a write invoked after those that stand behind it",
        lines.write_invoked_late,
        FAIL,
        RECORDS,
        (R,),
    ),
    _a(
        "a read that shows what was before the last write",
        lines.read_of_the_value_before,
        FAIL,
        RECORDS,
        (R,),
        alone="answer-differs",
    ),
    _a("an acknowledgement by another node", lines.answered_by_another, UNKNOWN, RECORDS),
)

PLANS = (
    _a("a plan without its check of durability", lines.plan_without(DURABILITY), UNKNOWN, FILES),
    _a("a plan without its check of invariants", lines.plan_without(INVARIANTS), UNKNOWN, FILES),
    _a("a plan of no known workload", lines.plan_of_another_workload, UNKNOWN, FILES, (R,)),
    _a("a plan by which nothing is traced", lines.plan_traces_nothing, UNKNOWN, FILES, (R,)),
)

ALTERATIONS = (*LOGS, *SNAPSHOT_FILES, *READS, *QUORUM_STATES, *TRACES, *JOURNAL, *PLANS)
CASES = [(alteration, run) for alteration in ALTERATIONS for run in alteration.runs]
