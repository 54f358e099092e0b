"""Check `groups`: each rule beside the closest schedule that is correct."""

import pytest

from checkers import CheckResult, Status
from checkers.groups import check, validate
from checkers.linearizability import linearizable
from checkers.registry import RunInput
from tests.checkers.histories import FAIL, INFO, OK, op

P, Q = "g0-0", "g0-1"


class History:
    """Operations in order, each of a process of its own unless it is said."""

    def __init__(self):
        self.operations = []

    def add(self, f, times, **fields):
        self.operations.append(op(len(self.operations), f, times, **fields))
        return self

    def send(self, times, value, offset, partition=P):
        return self.add("send", times, key=partition, input=value, output=value, offset=offset)

    def join(self, times, member, generation, instance=None, f="consume", **committed):
        shown = {_partition(name): offset for name, offset in committed.items()}
        value = {"partitions": [*shown], "committed": shown}
        return self.add(f, times, output={**_who(member, generation, instance), **value})

    def poll(self, times, member, generation, records, partition=P):
        value = {**_who(member, generation, None), "records": {partition: records}}
        return self.add("consume", times, output=value)

    def commit(self, times, member, generation, instance=None, type=OK, f="commit", **offsets):  # noqa: A002
        shown = {_partition(name): offset for name, offset in offsets.items()}
        value = {**_who(member, generation, instance), "offsets": shown}
        return self.add(f, times, output=value, type=type)

    def judge(self, at=1000, **committed):
        """Let somebody join alone in the end, and judge."""
        self.join((at, at + 1), "last", 999, f="join-all", **committed)
        return self.judge_as_it_is()

    def judge_as_it_is(self, **options):
        result = check(RunInput([], self.operations), options)
        return result.status, [(each["kind"], each["operations"]) for each in result.anomalies]


def _partition(name):
    return {"p": P, "q": Q}[name]


def _who(member, generation, instance):
    return {"member": member, "instance": instance, "generation": generation}


def two_generations():
    """a has p in generation 1 and commits 5; b has it in generation 2."""
    return (
        History().join((0, 1), "a", 1, p=-1).commit((2, 4), "a", 1, p=5).join((5, 6), "b", 2, p=5)
    )


# --- committed offsets ---


def test_a_commit_that_a_later_join_does_not_show_is_lost():
    history = two_generations().commit((7, 8), "b", 2, p=9).join((9, 10), "c", 3, p=5)
    assert history.judge(p=9) == (Status.FAIL, [("lost-commit", [1, 3, 4, 5])])


@pytest.mark.parametrize("shown", [5, 9])
def test_a_commit_without_an_answer_may_be_done_or_not(shown):
    history = two_generations().commit((7, None), "b", 2, type=INFO, p=9)
    assert history.judge(p=shown) == (Status.PASS, [])


def test_a_commit_without_an_answer_that_was_seen_stays():
    history = two_generations().commit((7, None), "b", 2, type=INFO, p=9)
    history.join((10, 11), "c", 3, p=9).join((12, 13), "d", 4, p=5)
    assert history.judge(p=9)[0] is Status.FAIL


def test_a_refused_commit_is_never_shown():
    history = two_generations().commit((7, 8), "a", 1, type=FAIL, p=9)
    assert history.judge(p=9)[0] is Status.FAIL


@pytest.mark.parametrize("asked", [2, 7])
def test_a_commit_without_an_answer_is_not_done_once_a_later_generation_has_joined(asked):
    def history(joined):
        history = two_generations().commit((asked, None), "a", 1, type=INFO, p=7)
        history.commit((joined, joined + 1), "b", 2, p=9)
        return history.join((12, 13), "c", 3, p=7)

    assert history(8).judge(p=7)[0] is Status.FAIL
    assert history(1).judge(p=7)[0] is (Status.PASS if asked < 6 else Status.FAIL)


def test_an_offset_of_nobody_may_be_that_of_a_commit_whose_client_was_ended():
    history = two_generations().add("commit", (7, None))
    assert history.judge(p=8) == (Status.UNKNOWN, [])


def test_what_was_lost_before_such_a_commit_is_lost():
    lost = two_generations().commit((7, 8), "b", 2, p=9).join((9, 10), "c", 3, p=5)
    assert lost.add("commit", (11, None)).judge(p=9)[1] == [("lost-commit", [1, 3, 4])]


# --- fencing ---


def test_a_commit_that_began_before_the_other_had_joined_may_be_acknowledged():
    history = History().join((0, 1), "a", 1, p=-1)
    history.commit((4, 8), "a", 1, p=6).join((5, 6), "b", 2, p=-1)
    assert history.judge(p=6) == (Status.PASS, [])


def test_a_member_that_joins_again_may_not_commit_in_its_former_generation():
    history = History().join((0, 1), "a", 1, p=-1).join((2, 3), "a", 2, p=-1)
    assert history.commit((4, 5), "a", 1, p=6).judge(p=6)[1] == [("fenced-commit", [1, 2])]


def test_with_member_epochs_a_member_may_be_behind_itself():
    history = History().join((0, 1), "a", 1, p=-1).join((2, 3), "a", 2, p=-1)
    history.commit((4, 5), "a", 1, p=6).join((9, 10), "last", 9, f="join-all", p=6)
    assert history.judge_as_it_is(protocol="consumer") == (Status.PASS, [])


def test_a_later_generation_of_any_partition_fences_all_members_of_the_one_before():
    history = History().join((0, 1), "a", 1, p=-1).join((2, 3), "b", 2, q=-1)
    history.commit((4, 5), "a", 1, p=6).join((9, 10), "last", 9, f="join-all", p=6, q=-1)
    assert history.judge_as_it_is() == (Status.FAIL, [("fenced-commit", [1, 2])])
    assert history.judge_as_it_is(protocol="consumer") == (Status.PASS, [])


def test_a_static_members_predecessor_is_fenced_in_the_same_generation():
    history = History().join((0, 1), "a", 1, "w2", p=-1).join((2, 3), "b", 1, "w2", p=-1)
    history.join((4, 5), "c", 2, q=-1).commit((6, 7), "a", 1, "w2", p=6)
    assert history.judge(p=6, q=-1)[1] == [("fenced-commit", [1, 3])]


def test_a_static_members_successor_is_not():
    history = History().join((0, 1), "a", 1, "w2", p=-1).join((2, 3), "b", 1, "w2", p=-1)
    history.commit((6, 7), "b", 1, "w2", p=6).join((8, 9), "c", 2, q=-1)
    assert history.judge(p=6, q=-1) == (Status.PASS, [])


# --- generations ---


def test_a_partition_has_one_owner_in_a_generation():
    history = two_generations().join((5, 7), "c", 2, p=5)
    assert history.judge(p=5) == (Status.FAIL, [("two-owners", [2, 3])])


def test_a_generation_never_goes_back():
    history = two_generations().join((7, 8), "c", 1, q=-1)
    assert history.judge(p=5, q=-1) == (Status.FAIL, [("generation-back", [2, 3])])


def test_a_join_may_be_answered_after_one_of_a_later_generation():
    history = History().join((0, 1), "a", 1, p=-1).commit((2, 3), "a", 1, p=5)
    history.join((4, 9), "c", 2, q=-1).join((5, 7), "b", 3, p=5)
    assert history.judge(p=5, q=-1) == (Status.PASS, [])


# --- what was processed ---


def processed(records, committed):
    history = History().send((0, 1), "v0", 0).send((0, 1), "v1", 1).send((0, 1), "v2", 2)
    history.join((2, 3), "a", 1, p=-1).poll((4, 5), "a", 1, records)
    return history.commit((6, 7), "a", 1, p=committed).join((8, 9), "b", 2, p=committed)


def test_a_record_that_is_processed_after_the_commit_was_skipped():
    history = processed([[0, "v0"]], 2).poll((10, 11), "b", 2, [[1, "v1"]])
    assert history.judge(p=2) == (Status.FAIL, [("skipped", [1, 5])])


def test_records_that_were_never_acknowledged_do_not_count():
    history = processed([[0, "v0"], [1, "v1"], [2, "v2"]], 9)
    assert history.judge(p=9) == (Status.PASS, [])


def test_a_record_without_an_answer_that_is_in_the_log_counts():
    def history(records):
        history = History().send((0, 1), "v0", 0).send((0, 1), "v2", 2)
        history.add("send", (0, None), key=P, input="v1", type=INFO)
        history.join((2, 3), "a", 1, p=-1).poll((4, 5), "a", 1, records)
        history.commit((6, 7), "a", 1, p=3).join((8, 9), "b", 2, p=3)
        shown = {"records": [[0, "v0"], [1, "v1"], [2, "v2"]]}
        return history.add("poll-all", (10, 11), key=P, output=shown)

    assert history([[0, "v0"], [1, "v1"], [2, "v2"]]).judge(p=3) == (Status.PASS, [])
    assert history([[0, "v0"], [2, "v2"]]).judge(p=3) == (Status.FAIL, [("skipped", [5, 7])])


# --- what is not known ---


def test_without_a_last_join_nothing_is_known_of_the_last_commits():
    assert two_generations().judge_as_it_is() == (Status.UNKNOWN, [])


def test_a_last_join_before_a_commit_has_ended_is_none():
    history = two_generations().join((7, 8), "last", 9, f="join-all", p=5)
    history.commit((8, 9), "b", 2, type=INFO, p=6)
    assert history.judge_as_it_is()[0] is Status.UNKNOWN


def test_a_last_join_that_does_not_show_what_was_committed_is_none():
    assert two_generations().commit((7, 8), "b", 2, q=9).judge(p=5)[0] is Status.UNKNOWN


def test_a_group_of_one_generation_shows_little():
    assert History().judge(p=-1) == (Status.UNDER_EXERCISED, [])
    assert History().join((0, 1), "a", 1, p=-1).judge(p=-1) == (Status.UNDER_EXERCISED, [])
    assert History().commit((2, 4), "a", 1, p=5).judge(p=5) == (Status.UNDER_EXERCISED, [])


def test_a_completion_of_another_form_is_unknown():
    history = History().add("commit", (0, 1), output={"member": "a"})
    assert history.judge_as_it_is()[0] is Status.UNKNOWN


@pytest.mark.parametrize(
    ("f", "value"),
    [
        *(
            ("consume", value)
            for value in (None, 5, "x", [], {"records": {P: 5}}, {"records": [1]})
        ),
        ("consume", {"records": {P: [[0, ["not", "hashable"]]]}}),
        *(("commit", value) for value in (5, "x", [], {"member": "a", "generation": "x"})),
        ("send", "a"),
        ("poll-all", {"records": [[0, ["not", "hashable"]]]}),
    ],
)
def test_what_the_workload_does_not_write_is_named_by_its_operation(f, value):
    history = History().add(f, (0, 1), key=P, output=value)
    result = check(RunInput([], history.operations), {})
    assert result.status is Status.UNKNOWN
    assert "operation 0" in result.summary


def test_a_register_that_could_not_be_judged_is_unknown(monkeypatch):
    late = CheckResult("linearizable", Status.UNKNOWN, "out of time")
    monkeypatch.setattr(linearizable, "check_key", lambda *_: late)
    assert two_generations().judge(p=5) == (Status.UNKNOWN, [])


def test_a_protocol_is_one_of_two():
    with pytest.raises(ValueError, match="classic, consumer"):
        validate({"protocol": "share"})


def test_a_group_that_processed_nothing_of_what_was_sent_shows_nothing():
    history = two_generations().send((7, 8), "v0", 9).commit((9, 10), "b", 2, p=9)
    assert history.judge(p=9) == (Status.UNDER_EXERCISED, [])


def test_a_group_that_stands_still_is_named_with_its_last_joins():
    history = two_generations().add("join-all", (10, 20), type=FAIL, error="not_coordinator")
    history.add("join-all", (30, 40), type=FAIL, error="coordinator_not_available")
    result = check(RunInput([], history.operations), {})
    assert result.status is Status.UNKNOWN
    assert "stood still" in result.summary
    assert "none of 2 joins" in result.summary
    assert "coordinator_not_available" in result.summary
