"""Which algorithm judges: the cheapest sound one with assumptions that hold.

| history | algorithm |
|---|---|
| a register, every value written once | `zones` |
| a register with compare-and-set, every value made once | `chains` |
| strings that are appended to, all texts that gets show written once | `chains` |
| a model with a rule of its own, if its assumptions hold | that rule (`rules`) |
| any other register, with compare-and-set or without | `frontier` and `wgl` in turns |
| everything else | `wgl` |

Searches are compiled (`kernels`) where the model becomes integers
(`search.encoding`): registers and strings that are appended to. Short histories are first
searched by the plain `wgl`, for a bounded number of configurations, which takes less time than to
make them integers. Without the compiled library it searches alone: the frontier is compiled only.
Which of them it is changes no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from porcupine_py.columns import Columns, Int64s, from_operations
from porcupine_py.kernels import load, why_not
from porcupine_py.models import CasRegister, KeyValue, Model, Register, State, relevant
from porcupine_py.operations import Operation, seconds
from porcupine_py.search import chains, strings, wgl
from porcupine_py.search.certificate import RefusedError, restrict
from porcupine_py.search.clusters import Judged, unique_keys
from porcupine_py.search.encoding import Encoded, encodable, encode, state_code
from porcupine_py.search.outcome import Budget, Outcome, Status, Window
from porcupine_py.search.race import SEARCHES, Raced, race
from porcupine_py.search.rules import RULE_NAMES, rules_for
from porcupine_py.search.wording import call_text, describe_swap, no_order, stale_get, stale_read

ALGORITHMS = ("zones", "chains", *RULE_NAMES, "frontier", "wgl")

_PLAIN_OPERATIONS_MAX, _PLAIN_EXPLORED_MAX = 40, 300
"""Up to so many operations plain Python is tried first, for so many configurations."""


def dispatch(
    operations: Sequence[Operation], model: Model, algorithm: str | None, budget: Budget
) -> tuple[str, Outcome]:
    """Judge the operations of one key; returns the algorithm that did and what it says.

    `model` was prepared for `operations`. `algorithm` (one of ALGORITHMS) forces one; UNKNOWN where
    its assumptions do not hold.
    """
    kept = relevant(operations, model)
    if algorithm in (None, "zones", "chains"):
        found = _unique(kept, model, algorithm)
        if found is not None:
            return found
    for rule in rules_for(model):
        outcome = rule.judge(kept, model) if algorithm in (None, rule.name) else None
        if outcome is not None:
            return rule.name, outcome
    if algorithm is not None and algorithm not in SEARCHES:
        return algorithm, Outcome(Status.UNKNOWN, _refusal(algorithm, model))
    if algorithm == "frontier" and (type(model) not in (Register, CasRegister) or load() is None):
        return algorithm, Outcome(Status.UNKNOWN, _refusal(algorithm, model))
    return search(kept, model, budget, None, SEARCHES if algorithm is None else (algorithm,))


def _refusal(algorithm: str, model: Model) -> str:
    if algorithm == "zones":
        return "zones need a register in which every written value is unique"
    if algorithm == "chains":
        return (
            "chains need a register in which every value is made once and nobody refused oddly, or "
            "strings that can be taken apart in one way into texts that were written once"
        )
    if algorithm == "frontier" and load() is None:
        return f"the frontier is compiled only, and {why_not()}"
    if algorithm == "frontier":
        return f"the frontier knows registers, not {model.name!r}"
    return f"the rule {algorithm!r} does not apply to this history of {model.name!r}"


def _unique(
    kept: Sequence[Operation], model: Model, algorithm: str | None
) -> tuple[str, Outcome] | None:
    name = "zones" if type(model) is Register else "chains"
    if not encodable(model) or algorithm not in (None, name):
        return None
    columns = from_operations(kept)
    if isinstance(model, KeyValue):
        judged = strings.judge(kept, model)
    else:
        encoded = encode(columns, model)
        if not has_unique_values(encoded, len(columns.values)):
            return None
        judged = chains.judge(encoded, len(columns.values))
    if judged is None or judged.undecided:
        return None
    return name, judged_outcome(judged, columns, kept, model)


def has_unique_values(encoded: Encoded, value_count: int) -> bool:
    """Return whether every value of a one-key history is made once: what `chains` needs."""
    assert len(encoded.bounds) == 2, "operations of several keys"
    return bool(unique_keys(encoded, value_count)[0])


def judged_outcome(
    judged: Judged, columns: Columns, kept: Sequence[Operation], model: Model
) -> Outcome:
    """Return what `chains` says of the one key, which is decided; `kept`: what is relevant."""
    if judged.wrong:
        return _wrong_outcome(judged, columns, kept, model)
    indexes = tuple(columns.index[judged.encoded.rows[judged.order]].tolist())
    explanation = f"{judged.clusters} clusters, {judged.forward} forward, none in conflict"
    if judged.longest > 1:
        explanation += f"; chains of up to {judged.longest}"
    return Outcome(Status.PASS, explanation, linearization=indexes, explored=judged.clusters)


_EXPLANATIONS = {
    "phantom-read": "a value was read that nobody wrote",
    "phantom-cas": "a compare-and-set succeeded on a value that nobody wrote",
    "read-before-write": "a value was read before anybody began to write it",
    "forked-cas": "two compare-and-sets succeeded on one value that was made once",
    "circular-cas": "compare-and-sets succeeded in a circle of values that were made once",
    "stale-cas": "a value was still there after a compare-and-set had replaced it",
    "stale-read": "two values must each have been there before the other",
    "refused-cas": "a compare-and-set was refused although the value was there all the time",
    "torn-append": "a text that was appended once is shown behind two strings",
}
_OF_STRINGS = {
    "forked-cas": (
        "forked-append",
        "two texts were each appended to one string that was made once",
    ),
    "stale-cas": ("stale-get", "a string was still there after something had been appended to it"),
}
"""Names and explanations where a register stands for a string."""


def _wrong_outcome(
    judged: Judged, columns: Columns, kept: Sequence[Operation], model: Model
) -> Outcome:
    (found,) = judged.wrong.values()
    shown = set(columns.index[judged.encoded.rows[list(found.rows)]].tolist())
    kind, explanation = found.kind, _EXPLANATIONS[found.kind]
    if isinstance(model, KeyValue):
        kind, explanation = _OF_STRINGS.get(kind, (kind, explanation))
    involved = [o for o in kept if o.index in shown]
    stale = stale_read(kept, model, involved) or stale_get(kept, model, involved)
    stale = stale or describe_swap(kept, model, involved)
    if stale is not None:
        explanation = stale
    else:
        explanation += f": {'; '.join(call_text(model, o) for o in involved)}"
    if found.times_ns and stale is None:
        f, s, other_f, other_s = map(seconds, found.times_ns)
        explanation += f" (one was there by {f} and still at {s}, the other by {other_f} and at "
        explanation += f"{other_s})"
    groups = {model.group(o) for o in kept if o.index in shown and model.has_effect(o)}
    groups |= {model.group(o) for o in kept if o.index in shown} - {None}
    every = found.kind == "refused-cas"  # which any value that is left out might explain
    horizon_ns = None
    if isinstance(model, KeyValue):  # a single put may begin what all appends belong to
        got_ns = [o.complete_ns for o in kept if o.index in shown and not model.has_effect(o)]
        horizon_ns = max(got_ns, default=None)
    inside = [
        o.index
        for o in kept
        if o.index in shown
        or (model.has_effect(o) and (every or model.group(o) in groups | {None}))
        if horizon_ns is None or o.invoke_ns <= horizon_ns
    ]
    return Outcome(
        Status.FAIL, explanation, kind=kind, window=Window(tuple(inside), None, horizon_ns)
    )


def search(
    kept: Sequence[Operation],
    model: Model,
    budget: Budget,
    initial: Sequence[State] | None = None,
    algorithms: Sequence[str] = SEARCHES,
) -> tuple[str, Outcome]:
    """Search relevant operations of one key, from the model's own state or any of `initial`."""
    if not encodable(model):
        return "wgl", wgl.search(kept, model, budget, initial)
    kernels = load()
    if kernels is None:
        outcome = wgl.search(kept, model, budget, initial)
        explanation = f"{outcome.explanation}; searched in plain Python: {why_not()}"
        return "wgl", replace(outcome, explanation=explanation)
    if not isinstance(model, Register):
        algorithms = ["wgl"]
    if "wgl" in algorithms and len(kept) <= _PLAIN_OPERATIONS_MAX:
        outcome = wgl.search(kept, model, budget, initial, explored_max=_PLAIN_EXPLORED_MAX)
        if outcome.status is not Status.UNKNOWN or outcome.explored <= _PLAIN_EXPLORED_MAX:
            return "wgl", outcome
    columns = from_operations(kept)
    encoded = encode(columns, model)
    states = [encoded.initial]
    if initial is not None:
        states = list(dict.fromkeys(state_code(columns, model, state) for state in initial))
    raced = race(kernels, encoded, states, budget, algorithms)
    return raced.algorithm, raced_outcome(raced, encoded, columns.index, kept, model)


_PROBE_TIME_S = 1.0
"""Most that one question to the search may take."""


def fails(operations: Sequence[Operation], model: Model, window: Window, budget: Budget) -> bool:
    """Return whether the search proves that the window has no order."""
    try:
        taken, states = restrict(operations, model, window)
    except RefusedError:
        return False
    budget.spend()
    _, outcome = search(taken, model, budget.part(_PROBE_TIME_S), states)
    return outcome.status is Status.FAIL


def raced_outcome(
    raced: Raced, encoded: Encoded, index: Int64s, kept: Sequence[Operation], model: Model
) -> Outcome:
    """Translate what a race found to operations; `index`: their indexes, by row."""
    if raced.status is Status.PASS:
        assert raced.order is not None
        order = tuple(index[encoded.rows[raced.order]].tolist())
        explanation = f"{len(order)} of {len(kept)} operations placed in order"
        return Outcome(Status.PASS, explanation, linearization=order, explored=raced.explored)
    horizon_ns = int(encoded.complete_ns[raced.blocked]) if raced.blocked >= 0 else None
    if raced.status is Status.UNKNOWN:
        explanation = f"{raced.exceeded} met after {raced.explored} configurations"
        return Outcome(Status.UNKNOWN, explanation, proved_ns=horizon_ns, explored=raced.explored)
    assert horizon_ns is not None, "a search fails at a completion"
    at = int(index[encoded.rows[raced.blocked]])
    blocked = next(o for o in kept if o.index == at)
    return Outcome(
        Status.FAIL,
        no_order(kept, model, blocked),
        window=wgl.prefix_window(kept, model, horizon_ns),
        proved_ns=horizon_ns,
        explored=raced.explored,
    )
