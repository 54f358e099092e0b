"""Jepsen's checks of whole histories: right ones, wrong ones, crashes, and brute force."""

import json
from dataclasses import replace
from itertools import combinations, permutations
from random import Random

import pytest

from checkers import Status, check, check_by
from checkers.history.edn import read_all
from tests.checkers.histories import FAIL, INFO, OK, op
from tests.checkers.linearizability import oracle
from tests.command_line import kraftprobe

PASS, UNKNOWN, IDLE = Status.PASS, Status.UNKNOWN, Status.UNDER_EXERCISED


def judged(history, name, **options):
    """Status, kinds of anomalies, and what was counted."""
    result = check_by(history, name, options)
    kinds = {anomaly["kind"] for anomaly in result.anomalies}
    return result.status, kinds, result.statistics.get("counts", {})


def in_a_row(*rows):
    """Operations one after another; each row is (f, input, output[, type])."""
    history = []
    for i, (f, given, output, *kind) in enumerate(rows):
        end = None if kind == [INFO] else 10 * i + 5
        more = {"type": kind[0]} if kind else {}
        history.append(op(i, f, (10 * i, end), input=given, output=output, **more))
    return history


# -- bank ------------------------------------------------------------------------------------------


def read_of(**balances):
    return ("read", None, balances)


MOVE = ("transfer", {"from": "a", "to": "b", "amount": 5}, None)


def test_reads_of_a_bank_keep_their_total():
    history = in_a_row(read_of(a=10, b=0), MOVE, read_of(a=5, b=5))
    assert judged(history, "bank", total_amount=10)[0] is PASS
    assert judged(history, "bank")[0] is PASS
    assert judged(history, "bank", total_amount=11)[:2] == (Status.FAIL, {"wrong-total"})


def test_a_read_between_the_two_sides_of_a_transfer_has_another_total():
    history = in_a_row(read_of(a=10, b=0), MOVE, read_of(a=10, b=5), read_of(a=5, b=5))
    result = check_by(history, "bank")
    assert result.status is Status.FAIL
    assert [anomaly["operations"] for anomaly in result.anomalies] == [[2]]
    (summary,) = result.statistics["errors_by_type"].values()
    assert (summary["count"], summary["first"], summary["lowest"]) == (1, 2, 15.0)


def test_balances_below_zero_are_wrong_unless_they_are_allowed():
    history = in_a_row(read_of(a=-5, b=15), read_of(a=10, b=0))
    assert judged(history, "bank")[:2] == (Status.FAIL, {"negative-value"})
    assert judged(history, "bank", negative_balances=True)[0] is PASS


def test_accounts_that_there_are_not_and_balances_that_are_none_are_wrong():
    history = in_a_row(read_of(a=10, c=0), read_of(a=10, b=None))
    kinds = judged(history, "bank", accounts=["a", "b"], total_amount=10)[1]
    assert kinds == {"unexpected-key", "nil-balance"}


def test_decimals_add_up_as_they_are_written():
    assert judged(in_a_row(read_of(a=0.1, b=0.2), read_of(a=0.3, b=0)), "bank")[0] is PASS
    third, rest = read_all("1/3 2/3")
    assert judged(in_a_row(read_of(a=third, b=rest), read_of(a=1, b=0)), "bank")[0] is PASS


@pytest.mark.parametrize("balance", [10**400, -(10**400), 1e308])
def test_a_wrong_total_is_found_however_large(balance):
    history = in_a_row(read_of(a=balance, b=balance), read_of(a=1, b=2))
    assert judged(history, "bank", total_amount=3)[:2] == (Status.FAIL, {"wrong-total"})
    json.dumps(check_by(history, "bank").anomalies, allow_nan=False)


def test_a_total_that_is_no_number_is_not_judged():
    result = check_by(in_a_row(read_of(a=1)), "bank", {"total_amount": float("nan")})
    assert (result.status, result.summary) == (UNKNOWN, "nan is no amount of money")


def test_banks_are_those_of_brute_force():
    verdicts = set()
    for case in range(500):
        rnd = Random(f"bank-{case}")
        balances = {"a": rnd.randint(0, 2), "b": rnd.randint(0, 2)}
        total, rows = sum(balances.values()), []
        for _ in range(rnd.randint(2, 5)):
            if rnd.random() < 0.5:
                source, target = rnd.sample("ab", 2)
                moved = rnd.randint(1, 2)
                if rnd.random() < 0.8 and balances[source] >= moved:
                    balances[source] -= moved
                    balances[target] += moved * rnd.choice([1, 1, 1, 0])
                given = {"from": source, "to": target, "amount": moved}
                rows.append(("transfer", given, None, rnd.choice([OK, INFO])))
            else:
                shown = dict(balances)
                if rnd.random() < 0.1:
                    shown["b"] -= 2
                rows.append(("read", None, shown, rnd.choice([OK, OK, OK, INFO, FAIL])))
        history = in_a_row(*rows)
        reads = [o.output for o in history if o.f == "read" and o.type is OK]
        totals = {sum(read.values()) for read in reads}
        below = any(balance < 0 for read in reads for balance in read.values())
        for known, wrong in ((False, len(totals) > 1), (True, bool(totals - {total}))):
            options = {"total_amount": total} if known else {}
            status = judged(history, "bank", **options)[0]
            assert (status is Status.FAIL) == (wrong or below), (case, known)
            verdicts.add(status)
    assert verdicts == {PASS, Status.FAIL, IDLE}


@pytest.mark.parametrize("balances", [7, {"a": "much"}, {"a": True}, {"a": float("nan")}])
def test_what_is_no_balance_is_not_judged(balances):
    assert judged(in_a_row(("read", None, balances)), "bank", total_amount=1)[0] is UNKNOWN


def test_a_bank_of_which_nothing_was_compared_is_under_exercised():
    assert judged(in_a_row(read_of(a=1)), "bank")[0] is IDLE
    assert judged(in_a_row(read_of(), read_of()), "bank")[0] is IDLE
    assert judged(in_a_row(MOVE), "bank", total_amount=1)[0] is IDLE


def test_a_read_that_mixes_snapshots_of_one_total_is_found_from_the_transfers():
    there, back = ({"from": x, "to": y, "amount": 1} for x, y in ("ab", "bc"))
    transfers = [op(1, "transfer", (10, 15), input=there), op(2, "transfer", (20, 25), input=back)]
    first = op(0, "read", (0, 1), output={"a": 1, "b": 1, "c": 1})
    mixed = op(3, "read", (5, 30), output={"a": 1, "b": 0, "c": 2})
    whole = op(3, "read", (5, 30), output={"a": 0, "b": 2, "c": 1})
    assert judged([first, *transfers, mixed], "bank")[0] is PASS
    assert check([first, *transfers, mixed], "accounts").status is Status.FAIL
    assert check([first, *transfers, whole], "accounts").status is PASS


def test_balances_of_accounts_are_decimals():
    transfer = {"from": "b", "to": "a", "amount": 0.2}
    history = [
        op(0, "read", (0, 1), output={"a": 0.1, "b": 0.5}),
        op(1, "transfer", (10, 15), input=transfer),
        op(2, "read", (20, 25), output={"a": 0.3, "b": 0.3}),
    ]
    assert check(history, "accounts").status is PASS
    history[2] = op(2, "read", (20, 25), output={"a": 0.1, "b": 0.3})
    result = check(history, "accounts")
    assert result.status is Status.FAIL
    assert "{a: 0.3, b: 0.3}" in result.summary


@pytest.mark.parametrize("balance", ["much", True, float("nan")])
def test_what_is_no_balance_is_refused_by_accounts(balance):
    with pytest.raises(ValueError, match="is no amount"):
        check(in_a_row(read_of(a=balance)), "accounts")


def test_accounts_begin_with_what_is_given_or_was_read_first():
    history = in_a_row(MOVE, read_of(a=5, b=5))
    assert check(history, "accounts", initial={"a": 10, "b": 0}).status is PASS
    assert check(history, "accounts", initial=[1, 2]).status is Status.FAIL
    with pytest.raises(ValueError, match="--initial has to say"):
        check(history, "accounts")
    with pytest.raises(ValueError, match="starts with balances"):
        check(history, "accounts", initial=7)


# -- long fork -------------------------------------------------------------------------------------


def wrote(key, value=1, *kind):
    return ("write", [["w", key, value]], [["w", key, value]], *kind)


def saw(**values):
    steps = [["r", key, value] for key, value in values.items()]
    return ("read", [[f, key, None] for f, key, _ in steps], steps)


def test_two_reads_that_see_writes_in_opposite_orders_are_a_long_fork():
    writes = [wrote("x"), wrote("y")]
    assert judged(in_a_row(*writes, saw(x=1, y=None), saw(x=1, y=1)), "long-fork")[0] is PASS
    forked = in_a_row(*writes, saw(x=1, y=None), saw(x=None, y=1))
    status, kinds, counts = judged(forked, "long-fork")
    assert (status, kinds) == (Status.FAIL, {"long-fork"})
    assert counts == {"writes": 2, "reads": 2, "early_reads": 0, "late_reads": 0}


def test_three_reads_of_overlapping_keys_can_be_a_fork():
    writes = [wrote("x"), wrote("y"), wrote("z")]
    reads = [saw(x=1, y=None), saw(y=1, z=None), saw(z=1, x=None)]
    assert judged(in_a_row(*writes, *reads), "long-fork")[1] == {"long-fork"}
    assert judged(in_a_row(*writes, *reads[:2]), "long-fork")[0] is PASS


def test_a_crashed_write_may_be_seen_and_a_failed_one_may_not():
    assert judged(in_a_row(wrote("x", 1, INFO), saw(x=1, y=None)), "long-fork")[0] is PASS
    failed = in_a_row(wrote("x", 1, FAIL), saw(x=1, y=None))
    assert judged(failed, "long-fork")[1] == {"aborted-read"}
    assert judged(in_a_row(saw(x=1, y=None), wrote("x")), "long-fork")[1] == {"future-read"}
    assert judged(in_a_row(wrote("x", 2), saw(x=1, y=None)), "long-fork")[1] == {"phantom"}


def test_the_initial_value_counts_as_unseen():
    forked = in_a_row(wrote("x"), wrote("y"), saw(x=1, y=0), saw(x=0, y=1))
    assert judged(forked, "long-fork", initial=0)[1] == {"long-fork"}


def test_a_read_that_shows_a_key_in_two_states_is_of_no_order():
    twice = ("txn", None, [["r", "x", 1], ["r", "x", None], ["r", "y", None]])
    found = judged(in_a_row(wrote("x"), wrote("y"), twice), "long-fork")
    assert found[:2] == (Status.FAIL, {"non-repeatable-read"})


def test_keys_that_are_written_twice_and_mixed_transactions_are_not_judged():
    assert judged(in_a_row(wrote("x"), wrote("x", 2)), "long-fork")[0] is UNKNOWN
    mixed = [["r", "x", None], ["w", "y", 1]]
    assert judged(in_a_row(("txn", mixed, mixed)), "long-fork")[0] is UNKNOWN
    assert judged(in_a_row(("write", 7, 7)), "long-fork")[0] is UNKNOWN
    assert judged(in_a_row(wrote("x"), saw(x=1)), "long-fork")[0] is IDLE


def one_order(history):
    """Whether some order of the writes has every read at one of its places."""
    writes = {o.input[0][1]: o for o in history if o.f == "write"}
    reads = [{key: value for _, key, value in o.output} for o in history if o.f == "read"]
    allowed = {key for key, o in writes.items() if o.type is not FAIL}
    for read in reads:
        if any(value is not None and key not in allowed for key, value in read.items()):
            return False
    for order in permutations(writes):
        prefixes = [set(order[:n]) for n in range(len(order) + 1)]
        seen = [{key for key, value in read.items() if value is not None} for read in reads]
        if all(
            any(prefix & read.keys() == shown for prefix in prefixes)
            for read, shown in zip(reads, seen, strict=True)
        ):
            return True
    return False


@pytest.mark.slow
def test_long_forks_are_those_of_brute_force():
    verdicts = set()
    for case in range(1_500):
        rnd = Random(case)
        keys = "wxyz"[: rnd.randint(2, 4)]
        writes = [wrote(key, 1, rnd.choice([OK, OK, INFO, FAIL])) for key in keys]
        order = rnd.sample(keys, len(keys))
        reads = []
        for _ in range(rnd.randint(1, 4)):
            done = order[: rnd.randint(0, len(order))]
            read = {key: 1 if key in done else None for key in rnd.sample(keys, 2)}
            if rnd.random() < 0.2:
                read = {key: rnd.choice([1, None]) for key in read}
            reads.append(saw(**read))
        history = in_a_row(*writes, *reads)
        status = judged(history, "long-fork")[0]
        assert (status is PASS) == one_order(history), case
        verdicts.add(status)
    assert verdicts == {PASS, Status.FAIL}


# -- set-full --------------------------------------------------------------------------------------


def add(value, *kind):
    return ("add", value, None, *kind)


def all_of(*elements):
    return ("read", None, list(elements))


def test_an_element_is_lost_when_later_reads_lack_it():
    status, kinds, counts = judged(in_a_row(add(1), all_of(1), all_of()), "set-full")
    assert (status, kinds, counts["lost"]) == (Status.FAIL, {"lost"}, 1)
    assert judged(in_a_row(add(1), all_of()), "set-full")[1] == {"lost"}
    result = check_by(in_a_row(add(1), all_of(1), all_of()), "set-full")
    (lost,) = result.anomalies
    window = {"known_ns": 5, "last_present": 1, "last_absent": 2, "latency_ns": 6}
    assert {name: lost[name] for name in window} == window


def test_an_element_that_is_seen_late_is_stale_and_only_wrong_if_the_set_is_linearizable():
    history = in_a_row(add(1), all_of(), all_of(1))
    result = check_by(history, "set-full")
    assert result.status is PASS
    assert [note["kind"] for note in result.allowed] == ["stale"]
    assert result.statistics["worst_stale"][0]["latency_ns"] == 6
    assert result.statistics["stable_latencies_ms"]["1"] == 6e-6
    assert judged(history, "set-full", linearizable=True)[1] == {"stale"}


def test_an_element_that_no_read_could_show_was_never_read():
    crashed = in_a_row(add(1), all_of(1), add(2, INFO), all_of(1), add(3))
    status, _, counts = judged(crashed, "set-full")
    assert (status, counts["stable"], counts["never_read"]) == (PASS, 1, 2)
    assert judged(in_a_row(add(1, INFO), all_of()), "set-full")[0] is IDLE


def test_a_read_that_is_concurrent_with_an_addition_need_not_show_it():
    history = [op(0, "add", (0, 5), input=1), op(1, "read", (5, 6), output=[])]
    assert judged(history, "set-full")[2]["lost"] == 0


def test_of_reads_that_began_at_one_time_neither_is_the_later():
    history = [op(0, "add", (0, 1), input=1)]
    both = [op(1, "read", (5, 6), output=[1]), op(2, "read", (5, 6), output=[])]
    for reads in (both, [replace(both[1], index=1), replace(both[0], index=2)]):
        status, _, counts = judged([*history, *reads], "set-full")
        assert (status, counts["lost"], counts["stale"]) == (PASS, 0, 1)
    later = [*history, both[0], op(2, "read", (7, 8), output=[])]
    assert judged(later, "set-full")[1] == {"lost"}


def test_what_nodes_lack_at_the_end_is_said_by_node():
    history = [op(0, "add", (0, 1), input=1), op(1, "add", (2, 3), input=2)]
    history += [op(2, "add", (8, 9), input=3)]  # after every read
    history += [
        replace(op(3 + number, "read", (4 + number, 7), output=shown), node=f"n{number + 1}")
        for number, shown in enumerate([[], [1, 2], [1]])
    ]
    result = check_by(history, "set-full", {"linearizable": True})
    assert result.anomalies[0]["kind"] == "missing-at-node"
    assert result.anomalies[0]["missing"] == {"n1": 2, "n2": 0, "n3": 1}
    said = "n1 lacks 2 acknowledged elements; n3 lacks 1; n2 none. The first: "
    assert said in result.summary
    assert check_by(history[:2], "set-full").statistics["missing_at"] == {}


def test_an_element_twice_in_a_read_is_duplicated():
    history = in_a_row(add(1), all_of(1, 1))
    assert judged(history, "set-full")[1] == {"duplicated"}
    [found] = check_by(history, "set-full").anomalies
    assert found["explanation"].endswith("shows 1 2 times, though it was added once (operation 0)")
    assert set(found["operations"]) == {0, history[1].index}, "what was added is in the proof"


def test_an_element_that_cannot_be_there_is_unexpected():
    for history in ([all_of(2)], [add(2, FAIL), all_of(2)], [all_of(2), add(2)]):
        assert judged(in_a_row(*history), "set-full")[1] == {"unexpected"}
    assert judged(in_a_row(add(1, FAIL), add(1), all_of(1)), "set-full")[0] is PASS


def test_reads_that_contradict_each_other_are_not_linearizable():
    history = [op(i, "add", (0, 50), input=i) for i in (1, 2)]
    history += [op(i, "read", (10, 20), output=[i - 2]) for i in (3, 4)]
    history += [op(5, "read", (60, 61), output=[1, 2])]
    assert judged(history, "set-full")[0] is PASS
    assert judged(history, "set-full", linearizable=True)[0] is Status.FAIL


def jepsen_outcome(history, value):
    """The outcome of an element, from the definition: all reads compared with all."""
    reads = [o for o in history if o.f == "read" and o.type is OK]
    adds = [o.complete_ns for o in history if o.f == "add" and o.input == value and o.type is OK]
    known = min([*adds, *(r.complete_ns for r in reads if value in r.output)], default=None)
    late = [r for r in reads if known is not None and r.invoke_ns > known]
    present = [r.invoke_ns for r in reads if value in r.output]
    absent = [r.invoke_ns for r in reads if value not in r.output]
    if present and (not absent or max(absent) <= max(present)):
        return "stable", any(value not in r.output for r in late)
    lost = absent and any(r.invoke_ns == max(absent) for r in late)
    return ("lost" if lost else "never-read"), False


@pytest.mark.slow
def test_set_full_agrees_with_its_definition_and_with_linearizability():
    verdicts = set()
    for case in range(2_000):
        rnd = Random(f"set-{case}")
        history = []
        for index in range(rnd.randint(2, 6)):
            begin = rnd.randint(0, 12)
            end = begin + rnd.randint(0, 4)
            if rnd.random() < 0.5:
                kind = rnd.choice([OK, OK, INFO, FAIL])
                history.append(op(index, "add", (begin, end), input=index, type=kind))
            else:
                shown = [i for i in range(index) if rnd.random() < 0.6]
                history.append(op(index, "read", (begin, end), output=shown))
        history.sort(key=lambda o: (o.invoke_ns, o.index))
        adds = {o.input for o in history if o.f == "add"}
        outcomes = [jepsen_outcome(history, value) for value in adds]
        _, _, counts = judged(history, "set-full")
        assert counts["lost"] == sum(outcome == "lost" for outcome, _ in outcomes), case
        assert counts["never_read"] == sum(outcome == "never-read" for outcome, _ in outcomes)
        assert counts["stale"] == sum(is_stale for _, is_stale in outcomes), case
        status = judged(history, "set-full", linearizable=True)[0]
        right = oracle.is_linearizable([o for o in history if o.type is not FAIL], "set")
        assert (status is not Status.FAIL) == right, case
        verdicts.add(status)
    assert {PASS, Status.FAIL} <= verdicts


# -- total queue -----------------------------------------------------------------------------------


def put(value, *kind):
    return ("enqueue", value, None, *kind)


def took(value):
    return ("dequeue", None, value)


def drained(*values):
    return ("drain", None, list(values))


def test_what_goes_in_comes_out():
    history = in_a_row(put(1), put(2, INFO), put(3), took(2), drained(3, 1))
    status, _, counts = judged(history, "total-queue")
    assert status is PASS
    assert counts == {
        "attempts": 3,
        "acknowledged": 2,
        "lost": 0,
        "unexpected": 0,
        "duplicated": 0,
        "recovered": 1,
    }


def test_an_acknowledged_element_that_a_drain_does_not_find_is_lost():
    assert judged(in_a_row(put(1), put(2), drained(2)), "total-queue")[1] == {"lost"}
    empty = ("dequeue", None, None, FAIL)
    history = in_a_row(put(1), empty)
    assert judged(history, "total-queue")[0] is UNKNOWN, "refused for whatever reason"
    history[-1] = op(1, "dequeue", (10, 15), type=FAIL, error="empty")
    assert judged(history, "total-queue")[1] == {"lost"}


def test_without_a_drain_an_element_may_still_be_there():
    assert judged(in_a_row(put(1)), "total-queue")[:2] == (UNKNOWN, {"missing"})
    assert judged(in_a_row(drained(), put(1)), "total-queue")[0] is UNKNOWN
    assert judged(in_a_row(put(1)), "total-queue", drained=True)[1] == {"lost"}


def test_a_crashed_dequeue_may_have_taken_one_element():
    crashed = ("dequeue", None, None, INFO)
    assert judged(in_a_row(put(1), crashed, drained()), "total-queue")[0] is UNKNOWN
    two = in_a_row(put(1), put(2), crashed, drained())
    assert judged(two, "total-queue")[1] == {"lost"}
    drain = ("drain", None, None, INFO)
    assert judged(in_a_row(put(1), put(2), drain, drained()), "total-queue")[0] is UNKNOWN


def test_what_nobody_put_in_is_unexpected():
    for history in ([drained(1)], [put(1, FAIL), drained(1)], [took(1), put(1), drained()]):
        assert "unexpected" in judged(in_a_row(*history), "total-queue")[1]


def test_a_second_delivery_is_noted_and_wrong_if_each_comes_once():
    history = in_a_row(put(1), took(1), drained(1))
    result = check_by(history, "total-queue")
    assert (result.status, [n["kind"] for n in result.allowed]) == (PASS, ["duplicated"])
    assert judged(history, "total-queue", exactly_once=True)[1] == {"duplicated"}


def test_a_second_delivery_of_the_first_does_not_hide_the_loss_of_the_second():
    history = in_a_row(put(1), took(1), took(1), put(1), drained())
    assert judged(history, "total-queue")[1] == {"lost"}


@pytest.mark.parametrize("row", [("peek", None, 1), ("drain", None, 7)])
def test_what_is_no_operation_on_a_queue_is_not_judged(row):
    assert judged(in_a_row(put(1), row), "total-queue")[0] is UNKNOWN


def queue_can(history, *, once, crashed):
    """Whether some execution of a queue ends empty; `crashed`: crashed dequeues may take place."""
    must = [o for o in history if o.type is OK]
    may = [o for o in history if o.type is INFO and (crashed or o.f == "enqueue")]
    return any(
        _runs([*must, *some], (), (), once)
        for n in range(len(may) + 1)
        for some in combinations(may, n)
    )


def _runs(left, inside, ever, once):
    if not left:
        return not inside
    for o in left:
        if any(other.complete_ns < o.invoke_ns for other in left if other is not o):
            continue
        rest = [other for other in left if other is not o]
        if o.f == "enqueue":
            if _runs(rest, (*inside, o.input), (*ever, o.input), once):
                return True
            continue
        for value in set(inside) if o.type is INFO else {o.output}:
            if value in inside:
                place = inside.index(value)
                if _runs(rest, inside[:place] + inside[place + 1 :], ever, once):
                    return True
            if not once and value in ever and _runs(rest, inside, ever, once):
                return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True])
def test_queues_are_judged_as_by_brute_force(once):
    verdicts = set()
    for case in range(1_500):
        rnd = Random(f"queue-{case}")
        history = []
        for index in range(rnd.randint(1, 6)):
            begin = rnd.randint(0, 9)
            end = begin + rnd.randint(0, 4)
            kind = rnd.choice([OK, OK, OK, INFO])
            if rnd.random() < 0.5:
                value = rnd.randint(0, 1)
                history.append(op(index, "enqueue", (begin, end), input=value, type=kind))
            else:
                value = rnd.randint(0, 1) if kind is OK else None
                history.append(op(index, "dequeue", (begin, end), output=value, type=kind))
        found = judged(history, "total-queue", drained=True, exactly_once=once)[0]
        if queue_can(history, once=once, crashed=False):
            expected = {PASS, IDLE}
        else:
            expected = {UNKNOWN} if queue_can(history, once=once, crashed=True) else {Status.FAIL}
        assert found in expected, (case, found, history)
        verdicts.add(found)
    assert {PASS, UNKNOWN, Status.FAIL} <= verdicts


# -- files -----------------------------------------------------------------------------------------

BANK = """
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value {0 10, 1 -2}}
{:process 1, :type :invoke, :f :transfer, :value {:from 0, :to 1, :amount 5}}
{:process 1, :type :info, :f :transfer, :value {:from 0, :to 1, :amount 5}}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value {0 5, 1 3}}
"""
FORK = """
[{:process 0, :type :invoke, :f :write, :value [[:w 0 1]]}
 {:process 0, :type :ok, :f :write, :value [[:w 0 1]]}
 {:process 0, :type :invoke, :f :read, :value [[:r 0 nil] [:r 1 nil]]}
 {:process 0, :type :ok, :f :read, :value [[:r 0 1] [:r 1 nil]]}]
"""
SET = (
    '[{"process": 0, "type": "invoke", "f": "add", "value": 1},'
    ' {"process": 0, "type": "ok", "f": "add", "value": 1},'
    ' {"process": 0, "type": "invoke", "f": "read", "value": null},'
    ' {"process": 0, "type": "ok", "f": "read", "value": []},'
    ' {"process": 0, "type": "invoke", "f": "read", "value": null},'
    ' {"process": 0, "type": "ok", "f": "read", "value": [1]}]'
)
QUEUE = """
{:process 0, :type :invoke, :f :enqueue, :value :a}
{:process 0, :type :ok, :f :enqueue, :value :a}
{:process 1, :type :invoke, :f :drain, :value nil}
{:process 1, :type :ok, :f :drain, :value (:a :a)}
"""


@pytest.mark.parametrize(
    ("model", "text", "options", "exit_code"),
    [
        ("bank", BANK, ["total-amount=8"], 1),
        ("bank", BANK, ["total-amount=8", "negative-balances?=true", "accounts=#{0 1}"], 0),
        ("bank", BANK, ["total-amount=8", "negative-balances?=true", "accounts=[0]"], 1),
        ("long-fork", FORK, [], 0),
        ("set-full", SET, [], 0),
        ("set-full", SET, [":linearizable?=true"], 1),
        ("total-queue", QUEUE, [], 0),
        ("total-queue", QUEUE, ["exactly-once=true"], 1),
        ("total-queue", QUEUE, ["exactly_twice=true"], 2),
        ("total-queue", QUEUE, ["drained"], 2),
        ("total-queue", QUEUE, ["drained=yes"], 2),
    ],
)
def test_files_of_others_are_judged_with_their_options(tmp_path, model, text, options, exit_code):
    path = tmp_path / "history.edn"
    path.write_text(text)
    given = [part for option in options for part in ("--option", option)]
    result = kraftprobe("check", path, "--model", model, *given)
    assert result.exit_code == exit_code, result.output
    by_name = {
        o.partition("=")[0].strip(":?").replace("-", "_").rstrip("?"): o.partition("=")[2]
        for o in options
    }
    if exit_code < 2 and set(by_name.values()) <= {"true"}:
        api = check_by(path, model, dict.fromkeys(by_name, True))
        assert api.status is (PASS if exit_code == 0 else Status.FAIL)


def test_keys_of_their_own_are_judged_one_by_one(tmp_path):
    rows = []
    for key, first in ((1, "[]"), (2, "[7]")):
        rows += [(kind, "add", 7, key) for kind in ("invoke", "ok")]
        for shown in (first, "[7]"):
            rows += [("invoke", "read", "nil", key), ("ok", "read", shown, key)]
    path = tmp_path / "history.edn"
    path.write_text(
        "".join(
            f"{{:process 0, :type :{kind}, :f :{f}, "
            f":value #jepsen.independent/tuple [{key} {value}]}}\n"
            for kind, f, value, key in rows
        )
    )
    result = check_by(path, "set-full")
    assert (result.status, result.statistics["keys"]) == (PASS, 2)
    assert result.statistics["counts"]["stale"] == 1
    assert [note["key"] for note in result.allowed] == ["1"]
    assert check_by(path, "set-full", {"linearizable": True}).status is Status.FAIL


def test_an_element_that_flutters_is_what_the_reads_that_began_last_say():
    """As in Jepsen's own test: 1 comes back, 0 goes, in two reads at a time; a step is 1 ms."""

    def at(index, f, begin, end, **fields):
        return op(index, f, (begin * 10**6, end * 10**6), **fields)

    history = [
        at(0, "add", 0, 1, input=0),
        at(1, "add", 2, 5, input=1),
        at(2, "read", 3, 4, output=[1]),
        at(3, "read", 6, 9, output=[0]),
        at(4, "read", 7, 8, output=[1]),
    ]
    result = check_by(history, "set-full")
    assert result.status is Status.FAIL
    assert (result.statistics["lost"], result.statistics["stale"]) == (["0"], ["1"])
    assert result.statistics["worst_stale"][0]["known_ns"] == 4 * 10**6
    assert int(result.statistics["stable_latencies_ms"]["0.5"]) == 2
    assert int(result.statistics["lost_latencies_ms"]["0.5"]) == 5
