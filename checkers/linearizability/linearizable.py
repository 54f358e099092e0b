"""Linearizability of one key (Herlihy and Wing 1990), by the cheapest sound algorithm.

`linearizability.dispatch` says which that is. The option `algorithm` overrides the choice; one
that does not apply is UNKNOWN. Every PASS and FAIL goes through `linearizability.certificate`; a
refused certificate is a broken checker, and makes the verdict UNKNOWN, loudly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from checkers.history import Operation, seconds
from checkers.verdict import CheckResult, Status, anomaly
from porcupine_py.models import Model, model_named
from porcupine_py.search import certificate
from porcupine_py.search.dispatch import ALGORITHMS, dispatch, fails
from porcupine_py.search.outcome import (
    Budget,
    BudgetExceededError,
    Cancelled,
    Outcome,
    Window,
    never,
)
from porcupine_py.search.window import shrink
from porcupine_py.search.wording import possible_states

__all__ = ["ALGORITHMS", "NAME", "check_key", "judge", "validate"]

NAME = "linearizable"
TIME_LIMIT_S = 60.0
MEMORY_LIMIT_MB = 1024.0
SHRINK_TIME_S = 5.0
"""Most that making a window small may take; the verdict stands before."""
_SHRUNK = ("chains", "frontier", "wgl")
"""Algorithms with windows that are not small by themselves."""
WINDOW_SHOWN_MAX = 60
"""Operations of a window that an anomaly shows; the certificate names all."""


def validate(options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown model or algorithm, or a limit that is not positive."""
    model_named(options.get("model"), options.get("initial"))
    algorithm = options.get("algorithm")
    if algorithm not in (None, *ALGORITHMS):
        raise ValueError(f"unknown algorithm {algorithm!r}; known: {', '.join(ALGORITHMS)}")
    for name in ("time_limit_s", "memory_limit_mb"):
        limit = options.get(name)
        if limit is not None and not limit > 0:
            raise ValueError(f"{name} must be above 0, not {limit!r}")


def check_key(
    operations: Sequence[Operation], options: Mapping[str, Any], cancelled: Cancelled = never
) -> CheckResult:
    """Judge the operations of one key; see `checkers.registry` for the options."""
    return judge(
        operations,
        model_named(options.get("model"), options.get("initial")),
        algorithm=options.get("algorithm"),
        time_limit_s=options.get("time_limit_s") or TIME_LIMIT_S,
        memory_limit_mb=options.get("memory_limit_mb") or MEMORY_LIMIT_MB,
        cancelled=cancelled,
    )


def judge(
    operations: Sequence[Operation],
    model: Model,
    *,
    algorithm: str | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_mb: float = MEMORY_LIMIT_MB,
    cancelled: Cancelled = never,
) -> CheckResult:
    """Judge one part of `model.partition(operations)` against any model.

    Raises HistoryError when the model does not know an operation.
    """
    budget = Budget(time_limit_s, int(memory_limit_mb * (1 << 20)), cancelled)
    prepared = model.prepare(operations)
    try:
        budget.spend()
        chosen, outcome = dispatch(operations, prepared, algorithm, budget)
    except BudgetExceededError as error:
        chosen, outcome = algorithm or "none", Outcome(Status.UNKNOWN, f"{error} met at the start")
    if outcome.window is not None and chosen in _SHRUNK:
        part = budget.part(SHRINK_TIME_S)
        smaller = shrink(
            operations, prepared, outcome.window, lambda w: fails(operations, prepared, w, part)
        )
        outcome = replace(outcome, window=smaller)
    return _result(operations, _verify(operations, prepared, outcome), chosen)


def _verify(operations: Sequence[Operation], model: Model, outcome: Outcome) -> Outcome:
    try:
        if outcome.status is Status.PASS:
            certificate.verify_order(operations, model, outcome.linearization)
        elif outcome.status is Status.FAIL:
            assert outcome.window is not None
            end = certificate.verify_window(operations, model, outcome.window)
            outcome = replace(outcome, possible=possible_states(model, end))
    except certificate.RefusedError as refusal:
        explanation = (
            f"CERTIFICATE REFUSED: the algorithm says {outcome.status.value} "
            f"({outcome.explanation}), but its proof is not accepted: {refusal}"
        )
        return replace(
            outcome, status=Status.UNKNOWN, kind="certificate-refused", explanation=explanation
        )
    return outcome


def _result(operations: Sequence[Operation], outcome: Outcome, algorithm: str) -> CheckResult:
    key = operations[0].key if operations else None
    statistics: dict[str, Any] = {"explored": outcome.explored}
    if outcome.proved_ns is not None:
        statistics["proved_ns"] = outcome.proved_ns
    if outcome.status is Status.PASS:
        proof: dict[str, Any] | None = {"linearization": list(outcome.linearization)}
        summary = f"linearizable: {outcome.explanation}"
    elif outcome.status is Status.FAIL:
        assert outcome.window is not None
        proof = _window_certificate(outcome.window)
        summary = f"not linearizable: {outcome.explanation}"
    else:
        proof = None
        summary = outcome.explanation
        if outcome.proved_ns is not None:
            summary += f"; linearizable up to {seconds(outcome.proved_ns)}"
    refused = outcome.kind == "certificate-refused"
    anomaly = outcome.status is Status.FAIL or refused
    return CheckResult(
        NAME,
        outcome.status,
        summary,
        key=key,
        algorithm=algorithm,
        operations=len(operations),
        anomalies=(_anomaly(operations, outcome),) if anomaly else (),
        certificate=proof,
        statistics=statistics,
    )


def _window_certificate(window: Window) -> dict[str, Any]:
    return {
        "window": list(window.operations),
        "from_ns": window.from_ns,
        "horizon_ns": window.horizon_ns,
    }


def _anomaly(operations: Sequence[Operation], outcome: Outcome) -> dict[str, Any]:
    found = anomaly(outcome.kind, outcome.explanation)
    if outcome.window is not None:
        inside = set(outcome.window.operations)
        shown = [asdict(operation) for operation in operations if operation.index in inside]
        found["window"] = shown[:WINDOW_SHOWN_MAX]
        found["window_operations"] = len(shown)
    if outcome.possible:
        found["possible"] = outcome.possible
    return found
