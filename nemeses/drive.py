"""Apply and undo faults so that no error of a fault ends a schedule.

`inject`, `heal` and `heal_all` turn every error into an Injection that says `verified=False` and
why; only cancellation passes through. They keep `view.active`, which is how one fault knows of
the others. Calls may overlap as long as no injection is healed twice at once.

An injection that raised has acted in whole, in part or not at all. `heal_all` finds cut and shaped
links, paused and dead nodes by itself, but no clock, disk, limit or voter, and nothing that a
package's fault did. So it counts as applied, to every node and link, until its own heal measures
that it is gone; a heal that asks for what was never noted raises, and the fault is then reported as
not healed. Only a Refusal, or parameters that are refused, say that nothing was done: the faults
here raise no other error that a true run can meet, since each catches what a backend raises, before
it acts (`before_acting`) and while it does.

Each call of a fault is ended at a bound (`View.bound_s`), since one of a package may wait for ever.
An injection that was ended so counts like one that raised. What ran out of time is not called
again, or a short run would take hours to end: its kind is refused from then on, and an injection
whose heal did not end stays not healed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TypeVar
from weakref import WeakKeyDictionary

from cluster.backends.abilities import LinkShape
from cluster.backends.base import Backend, NodeState
from extensions import ExtensionError
from nemeses.active_faults import held_down, is_damaged
from nemeses.at_once import OutOfTimeError, do_at_once, not_cancelled
from nemeses.base import Injection, ParameterError, Parameters, Refusal, View, others, refusal
from nemeses.disks.io_faults import DiskError, DiskFull, DiskSlow, DiskStall
from nemeses.disks.log_dirs import LogDirLoss
from nemeses.disks.wipe import DiskWipe
from nemeses.processes.signals import Stop
from nemeses.quorum.requests import Resign
from nemeses.quorum.voters import Voters
from nemeses.registry import fault_named

T = TypeVar("T")

_AFTER_SWEEP = 2
_RANK = {
    **dict.fromkeys((DiskStall.name, DiskSlow.name, DiskFull.name, DiskError.name), -1),
    Stop.name: 1,
    LogDirLoss.name: _AFTER_SWEEP,
    DiskWipe.name: 3,
    Voters.name: 4,
    Resign.name: 5,
}
"""Place in the order of heals; 0 where none is given."""
_failed_late: WeakKeyDictionary[Backend, set[tuple[str, int]]] = WeakKeyDictionary()
"""(node, incarnation) that a storage fault hit, healed by now: the node may still end over it."""
_out_of_time: WeakKeyDictionary[Backend, dict[object, str]] = WeakKeyDictionary()
"""What is not called again, and why: names of faults, and keys of injections to be healed."""
SWEEP = "sweep"
"""Name of the result in which leftovers of no active injection are reported."""


async def inject(
    view: View, name: str, parameters: Parameters, acted: Callable[[], None] = lambda: None
) -> Injection:
    """Apply the fault of this name and measure whether it bit.

    What was applied, or may have been, joins `view.active`, bitten or not; `acted` is called before
    it is measured. If this is cancelled while it applies, `heal_all` finds what it did.
    """
    injection, is_known = await _apply(view, name, parameters)
    if not injection.applied:
        return injection
    view.active.append(injection)
    acted()
    if not is_known:
        return injection
    verified = await _measure(view, injection, name, "its measurement", fault_named(name).verify)
    for place, active in enumerate(view.active):
        if active.key is injection.key:  # it may have been healed meanwhile
            view.active[place] = verified
    return verified


async def _apply(view: View, name: str, parameters: Parameters) -> tuple[Injection, bool]:
    """Apply a fault; returns the injection, and whether it is known what it did."""
    hung = _out_of_time.setdefault(view.backend, {})
    if name in hung:
        return refusal(name, parameters, f"it is not tried again: {hung[name]}"), True
    try:
        fault = fault_named(name)
    except (ParameterError, ExtensionError) as error:
        return refusal(name, parameters, _reason(error)), True
    try:
        injection = _check_injection(await _call(view, fault.inject(view, parameters)))
    except Refusal as error:
        return refusal(name, parameters, str(error)), True
    except ParameterError as error:
        return refusal(name, parameters, _reason(error)), True
    except Exception as error:  # noqa: BLE001  (whatever a fault meets belongs in the history)
        reason = _reason(error, "its injection")
        if isinstance(error, OutOfTimeError):
            hung[name] = reason
        injection = refusal(name, parameters, f"{reason}, perhaps after it acted")
        nodes = view.backend.nodes
        every_link = tuple(permutations(nodes, 2))
        return replace(injection, targets=nodes, links=every_link, applied=True), False
    # Verified, or with targets, it did something, whatever it says of that.
    did = injection.applied or injection.verified or bool(injection.targets)
    return replace(injection, applied=did), True


async def heal(view: View, injection: Injection) -> Injection:
    """Undo an injection, as `inject` returned it, and measure that it is gone.

    It leaves `view.active` when it is; a heal that failed stays there, so that `heal_all` tries
    again. Nothing to undo counts as healed.
    """
    if not injection.applied:
        return replace(injection, verified=True, detail={"nothing": "it was not applied"})
    if why := _out_of_time.get(view.backend, {}).get(injection.key):
        return replace(injection, verified=False, detail={**injection.detail, "reason": why})
    met = {(node, view.backend.incarnation(node)) for node in injection.targets}
    act = fault_named(injection.fault).heal
    healed = await _measure(view, injection, injection.key, "its heal", act)
    if injection.detail.get("may_end_node"):
        _failed_late.setdefault(view.backend, set()).update(met)
    if healed.verified:
        view.active[:] = others(view, injection)
    return healed


def heal_order(injections: Sequence[Injection]) -> list[Injection]:
    """Order injections, given oldest first, for undoing them: newest first, but membership last.

    Disks come first: a node that is started on one that fails ends again.

    A change of voters commits only where a majority runs and is reached, so membership is restored
    after processes, links, clocks and disks, whichever of them came later; a voter that lost its
    disk before another one that was removed, for that may be the same node. A broker that gets a
    log directory back is whole once a quorum registers it: when what cuts or kills is healed. That
    the quorum went on after a resignation shows last of all. A node that is ending can end once it
    is not paused and its disk works.
    """
    newest_first = list(reversed(injections))
    return sorted(newest_first, key=lambda injection: _RANK.get(injection.fault, 0))


async def heal_all(view: View) -> tuple[Injection, ...]:
    """Undo everything that is active in `heal_order`; one result each, in that order.

    Before what needs a quorum sweep up what no injection accounts for, as after a cancelled one:
    cut links, paused nodes, and dead nodes, but not those that died unasked, which are evidence,
    unless a fault that was healed had failed their storage. A sweep that found something is
    reported as a last result of fault `sweep`.
    """
    ordered = heal_order(view.active)
    first = [injection for injection in ordered if _RANK.get(injection.fault, 0) < _AFTER_SWEEP]
    results = [await heal(view, injection) for injection in first]
    swept = await _sweep(view)
    results += [await heal(view, injection) for injection in ordered[len(first) :]]
    return (*results, *swept)


async def start_ended(view: View) -> tuple[Injection, ...]:
    """Start nodes that ended themselves over a storage fault only after its heal.

    The heal saw them run. Were they left to the sweep, every later fault would meet a quorum that
    is short of a node: with three of them and another one down, none.
    """
    backend = view.backend
    found, failed = [], []
    for node, incarnation in sorted(_failed_late.get(backend, ())):
        ended = backend.incarnation(node) == incarnation and not held_down(view, node)
        if not ended:
            continue
        try:
            if await _call(view, backend.state(node)) is not NodeState.DEAD:
                continue
            await _call(view, backend.start(node))
        except Exception as error:  # noqa: BLE001  (as in `inject`)
            failed.append(f"{node} may have ended: {_reason(error)}")
        found.append(node)
    return _sweep_report(found, failed)


async def _sweep(view: View) -> tuple[Injection, ...]:
    backend = view.backend
    crashed = {(death.node, death.incarnation) for death in backend.unexpected_deaths()}
    crashed -= _failed_late.get(backend, set())
    found: list[str] = []
    failed: list[str] = []

    async def undo(node: str, what: str, act: Awaitable[None]) -> None:
        found.append(node)
        try:
            await _call(view, act)
        except Exception as error:  # noqa: BLE001  (as in `inject`)
            failed.append(f"{node} {what}: {_reason(error)}")

    if cut := sorted(backend.links_cut()):
        nodes = ",".join(sorted({node for link in cut for node in link}))
        await undo(nodes, "links were cut", backend.restore_links(cut))
    shaping = backend.abilities().shaping
    if shaping is not None and (shaped := sorted(shaping.shapes())):
        nodes = ",".join(sorted({node for link in shaped for node in link}))
        perfect = dict.fromkeys(shaped, LinkShape())
        await undo(nodes, "links were shaped", shaping.shape(perfect))
    for node in backend.nodes:
        try:
            state = await _call(view, backend.state(node))
        except Exception as error:  # noqa: BLE001  (as in `inject`)
            found.append(node)
            failed.append(f"{node}: {_reason(error, 'the look at its state')}")
            continue
        if state is NodeState.PAUSED:
            await undo(node, "was paused", backend.resume(node))
        elif (
            state is NodeState.DEAD
            and (node, backend.incarnation(node)) not in crashed
            and not is_damaged(view, node)
        ):
            await undo(node, "was dead", backend.start(node))
    return _sweep_report(found, failed)


def _sweep_report(found: Sequence[str], failed: Sequence[str]) -> tuple[Injection, ...]:
    if not found:
        return ()
    detail = {"found": list(found)} | ({"reason": "; ".join(failed)} if failed else {})
    swept = Injection(SWEEP, {}, tuple(found), verified=not failed, detail=detail, applied=True)
    return (swept,)


async def _measure(
    view: View,
    injection: Injection,
    key: object,
    what: str,
    act: Callable[[View, Injection], Awaitable[Injection]],
) -> Injection:
    """Return what a fault measured of an injection, which stays applied until it is healed.

    `key` is what is not called again when it runs out of time, and `what` names it.
    """
    try:
        found = _check_injection(await _call(view, act(view, injection)))
    except Exception as error:  # noqa: BLE001  (as in `inject`)
        reason = _reason(error, what)
        if isinstance(error, OutOfTimeError):
            _out_of_time.setdefault(view.backend, {})[key] = reason
        detail = {**injection.detail, "reason": reason}
        return replace(injection, verified=False, detail=detail)
    return replace(found, applied=True, key=injection.key)


async def _call(view: View, work: Awaitable[T]) -> T:
    """Await what a fault or the backend does, within the bound: OutOfTimeError."""
    doing = not_cancelled(work)
    return await (doing if view.bound_s is None else do_at_once(doing, view.bound_s))


def _check_injection(answer: object) -> Injection:
    """Refuse what is no Injection: a fault of a package may answer anything. Raises TypeError."""
    if not isinstance(answer, Injection):
        raise TypeError(f"a fault answers with an Injection, not {answer!r}")
    return answer


def _reason(error: Exception, what: str = "it") -> str:
    if isinstance(error, OutOfTimeError):
        return f"{what} did not end within {error.bound_s:g} s"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
