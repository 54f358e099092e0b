"""Objects that only grow, written through one leader and read at nodes that lag.

What is promised of each key, where reads come from a broker's own image:

- writes are linearizable;
- a read shows a state that there was at some time before the read ended. How old it may be is not
  promised;
- a node never goes back: of two answers of one node, the second asked for after the first had come,
  the second shows the same state or a later one, whichever client asks, and however often the node
  was restarted between them. (Not only each client's own reads, as in `sessions`: states that grow
  can be compared whoever saw them.)

| model | state | grows by | shown by |
|---|---|---|---|
| `list-append` | a list | `append` | `read` |
| `counter` | the sum of equal increments | `add`, `increment` | `read` |
| `broker` | the epoch of a broker id | `register` | controllers: `register`, `heartbeat`, `fence` |

Theorem, for lists and counters: the promise holds exactly when no node goes back and the history is
linearizable once every read may have begun when the run did. (States grow, so a read has its one
place among the writes, and reads in one place take any order.) Of a list that is for the rule for
lists (`porcupine_py.search.rules.collections`). Of a counter: a read shows at most as many as were
asked for before it ended (placed in order of invocation, the first n increments are those that a
read of n needs). Increments of different amounts, or below zero, are not judged: which of them a
sum stands for is a search (`linearizable` with the model `counter` makes it).

Of a broker: the epochs that one controller answers with never go back, so that it takes no word
from an incarnation that it has replaced; no two incarnations have one epoch; who asks to be fenced
is, who has all metadata is not; and a broker is seen unfenced only once a heartbeat could have
unfenced it. Another controller may still take an old incarnation's heartbeat: one that changes
nothing is answered from memory, by a leader that has been deposed and does not know.

Indeterminate writes may have had their effect, refused ones have none. Complexity: O(n log n), and
for lists the length of what was read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from checkers.history import INFINITY_NS, EventType, HistoryError, Operation
from checkers.verdict import PROMISE, Anomaly, CheckResult, Status, anomaly
from porcupine_py.models.base import relevant
from porcupine_py.models.collections import ListAppend, read_list
from porcupine_py.models.counters import Counter
from porcupine_py.search.outcome import Cancelled, Outcome, never
from porcupine_py.search.rules.collections import list_order
from porcupine_py.search.rules.ladder import inversion
from porcupine_py.search.wording import describe_inversion
from porcupine_py.values import freeze

NAME = "growth"


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown model."""
    if options.get("model") not in MODELS:
        raise ValueError(f"unknown model {options.get('model')!r}; known: {', '.join(MODELS)}")


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge one key by the promise of its model."""
    key = operations[0].key if operations else None
    rule, promise = MODELS[str(options["model"])]
    known = [o for o in operations if o.type is not EventType.FAIL]
    reason = "cancelled" if cancelled() else _unjudgeable(known, str(options["model"]))
    if reason is not None:
        return CheckResult(NAME, Status.UNKNOWN, reason, key=key, operations=len(operations))
    wrong = rule(known)
    return CheckResult(
        NAME,
        Status.PASS if wrong is None else Status.FAIL,
        promise if wrong is None else str(wrong["explanation"]),
        key=key,
        algorithm="growth",
        operations=len(operations),
        anomalies=() if wrong is None else (wrong,),
        statistics={PROMISE: promise},
        certificate=None if wrong is None else {"operations": wrong["operations"]},
    )


def _unjudgeable(operations: Sequence[Operation], model: str) -> str | None:
    """Return why nothing can be said of these operations; None if it can."""
    if model == "counter":
        amounts = _amounts(operations) - {0}
        if len(amounts) > 1 or min(amounts, default=1) < 0:
            return f"the amounts {', '.join(map(str, sorted(amounts)))} are not all one above zero"
    elements: set[Hashable] = set()
    for operation in operations:
        if operation.type is EventType.OK and operation.node is None:
            return f"operation {operation.index} does not say which node answered"
        if operation.f == "append" and freeze(operation.input) in elements:
            return f"{operation.input!r} was appended twice"
        if operation.f == "append":
            elements.add(freeze(operation.input))
    return None


_OF_READS = {"phantom": "phantom", "repeated": "doubled", "incompatible-order": "reads-disagree"}
"""What is wrong with reads of a list by themselves, and its name here."""


def _judge_list(operations: Sequence[Operation]) -> Anomaly | None:
    """Judge a list by the order that its reads show, and reads as if they began with the run."""
    began_ns = min((o.invoke_ns for o in operations), default=0)
    known = [o for o in relevant(operations, ListAppend()) if o.f in ("append", "read")]
    found = list_order([replace(o, invoke_ns=began_ns) if o.f == "read" else o for o in known])
    assert found is not None, "every element was appended once"
    if isinstance(found, Outcome):
        shown = () if found.window is None else found.window.operations
        involved = (o for o in known if o.index in shown)
        return anomaly(_OF_READS[found.kind], found.explanation, *involved)
    order, _, longest = found
    back = _went_back((read, len(read_list(read))) for read in _reads(operations))
    pair = inversion(order)
    if back is not None or pair is None:
        return back
    first, second = pair
    kind = "reordered" if freeze(second.input) in longest else "lost"
    if second.f == "read":
        kind = "read-before-append"
    return anomaly(kind, describe_inversion(first, second), first, second)


def _amounts(operations: Iterable[Operation]) -> set[int]:
    counter = Counter()
    return {counter.amount(o) for o in operations if o.f != "read"}


def _judge_counter(operations: Sequence[Operation]) -> Anomaly | None:
    counter = Counter()
    increments = sorted(o.invoke_ns for o in operations if o.f != "read" and counter.has_effect(o))
    amount = max(_amounts(operations), default=0) or 1
    reads = [(read, _whole(read, read.output)) for read in _reads(operations)]
    for read, count in reads:
        possible = amount * bisect_right(increments, read.complete_ns)
        if not 0 <= count <= possible or count % amount:
            explanation = (
                f"operation {read.index} read {count}, when {possible} increments had been asked "
                "for that can have had an effect"
            )
            return anomaly("phantom", explanation, read)
    return _went_back(reads)


def _judge_broker(operations: Sequence[Operation]) -> Anomaly | None:
    unfencing: dict[str, int] = {}
    epochs: dict[int, Operation] = {}
    accepted: list[tuple[Operation, int]] = []
    for operation in sorted(operations, key=lambda o: o.invoke_ns):
        if operation.f == "heartbeat" and not operation.input["behind"]:
            unfencing.setdefault(operation.input["incarnation"], operation.invoke_ns)
    first_ns = min(unfencing.values(), default=INFINITY_NS)
    for answer in operations:
        if answer.type is not EventType.OK:
            continue
        if answer.f == "read":
            unfenced, possible_ns = answer.output["alive"], first_ns
        else:
            incarnation = answer.input["incarnation"]
            epoch = _whole(answer, answer.output["epoch"])
            other = epochs.setdefault(epoch, answer)
            if other.input["incarnation"] != incarnation:
                explanation = f"operations {other.index} and {answer.index} both have epoch {epoch}"
                return anomaly("shared-epoch", explanation, other, answer)
            accepted.append((answer, epoch))
            unfenced = answer.f != "register" and not answer.output["fenced"]
            possible_ns = unfencing.get(incarnation, INFINITY_NS)
            if unfenced and answer.f == "fence":
                explanation = f"operation {answer.index} asked to be fenced and is not"
                return anomaly("not-fenced", explanation, answer)
            if answer.f == "heartbeat" and not answer.input["behind"] and not unfenced:
                explanation = f"operation {answer.index} has all metadata and is fenced"
                return anomaly("not-unfenced", explanation, answer)
        if unfenced and possible_ns > answer.complete_ns:
            explanation = f"operation {answer.index} shows a broker that nothing had unfenced"
            return anomaly("phantom", explanation, answer)
    return _went_back(accepted)


def _went_back(answers: Iterable[tuple[Operation, int]]) -> Anomaly | None:
    """Find an answer with less than its node had answered before it was asked for."""
    by_node: dict[str | None, list[tuple[Operation, int]]] = {}
    for operation, state in answers:
        by_node.setdefault(operation.node, []).append((operation, state))
    for node, found in by_node.items():
        ended = sorted(found, key=lambda pair: pair[0].complete_ns)
        highest: tuple[Operation, int] | None = None
        position = 0
        for then, state in sorted(found, key=lambda pair: pair[0].invoke_ns):
            while ended[position][0].complete_ns < then.invoke_ns:
                if highest is None or ended[position][1] > highest[1]:
                    highest = ended[position]
                position += 1
            if highest is not None and highest[1] > state:
                first, seen = highest
                explanation = (
                    f"{node} went back: operation {first.index} was answered with state {seen}, "
                    f"and then operation {then.index} with state {state}"
                )
                return anomaly("went-back", explanation, first, then)
    return None


def _reads(operations: Iterable[Operation]) -> list[Operation]:
    return [o for o in operations if o.f == "read" and o.type is EventType.OK]


def _whole(operation: Operation, value: object) -> int:
    if type(value) is not int:
        raise HistoryError(f"operation {operation.index}: {value!r} is no state")
    return value


_STALE = "reads that may be stale but go back at no node"
Rule = Callable[[Sequence[Operation]], Anomaly | None]
MODELS: Mapping[str, tuple[Rule, str]] = {
    "list-append": (_judge_list, f"linearizable appends and {_STALE}"),
    "counter": (_judge_counter, f"linearizable increments and {_STALE}"),
    "broker": (
        _judge_broker,
        "epochs that go back at no controller and reads of no broker unfenced before a heartbeat",
    ),
}
"""Name -> what judges a key, and the promise that it judges by."""
