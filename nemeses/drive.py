"""Apply and undo faults so that a schedule never dies of one.

`inject` and `heal` turn every error into an Injection that says `verified=False` and why; only
cancellation passes through. Both keep `view.active`, which is how one fault knows of the others.
"""

from __future__ import annotations

from dataclasses import replace

from nemeses.base import Injection, Parameters, View, refused
from nemeses.registry import fault_named


async def inject(view: View, name: str, parameters: Parameters) -> Injection:
    """Apply the fault of this name and measure whether it bit.

    What was applied joins `view.active`, bitten or not, also when this call is cancelled
    half-way: the faults themselves apply one thing after another, and heal copes with a part.
    """
    fault = fault_named(name)
    try:
        injection = await fault.inject(view, parameters)
    except Exception as error:  # noqa: BLE001  (whatever a fault meets belongs in the history)
        return refused(name, parameters, _reason(error))
    if not injection.applied:
        return injection
    view.active.append(injection)
    try:
        verified = await fault.verify(view, injection)
    except Exception as error:  # noqa: BLE001  (as above)
        verified = _failed(injection, error)
    view.active[view.active.index(injection)] = verified
    return verified


async def heal(view: View, injection: Injection) -> Injection:
    """Undo an injection and measure that it is gone.

    It leaves `view.active` when it is; a heal that failed stays there, so that a later
    `heal_all` tries again.
    """
    raise NotImplementedError


async def heal_all(view: View) -> tuple[Injection, ...]:
    """Undo everything that is active, newest first; one result each, in that order."""
    raise NotImplementedError


def _failed(injection: Injection, error: Exception) -> Injection:
    return replace(injection, verified=False, detail={**injection.detail, "reason": _reason(error)})


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
