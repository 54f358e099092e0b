"""What a fault is: probe, inject, verify, heal.

A fault that was asked for and did not bite makes a run worthless without making it wrong, so
every injection and every heal is measured, and the measurement goes into the history. A fault
that cannot be applied raises a Refusal, one that did not bite says why (`reason` in `detail`).
`nemeses.drive`, which calls all faults, lets no error of theirs end a schedule; any other error of
an injection may have come after a part of it acted, and counts as that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from cluster.backends.abilities import Abilities
from cluster.backends.base import Backend, BackendError, Link, Probe
from cluster.values import valueclass

T = TypeVar("T")
Parameters = Mapping[str, Any]
"""What a plan says of one fault, JSON-able: {"targets": "leader"}, {"shape": "halves"}, ..."""


class ParameterError(ValueError):
    """A plan has a parameter that the fault does not take; one line, with the nearest name."""


class Refusal(Exception):  # noqa: N818  (it is no error: the fault cannot act now)
    """An injection cannot act, and has done nothing: what was not done needs no heal."""


@contextmanager
def before_acting() -> Iterator[None]:
    """Make an error of the backend a Refusal, where the fault has only looked so far."""
    try:
        yield
    except BackendError as error:
        raise Refusal(str(error)) from error


@valueclass
class Injection:
    """One fault as it was applied. JSON-able throughout; `value()` goes into the journal."""

    fault: str
    parameters: Mapping[str, Any]
    targets: tuple[str, ...]
    """Nodes it acts on; empty when it was refused."""
    verified: bool
    """After inject and verify: it bit. After heal: it is gone. Both as measured."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What was measured and how; `reason` when not verified."""
    links: tuple[Link, ...] = ()
    """Directed links that it cuts or shapes, sorted."""
    applied: bool = False
    """Whether anything was done that has to be healed. Stays True if it did not bite."""
    key: object = field(default_factory=object, compare=False, repr=False)
    """Identity of the injection: each measurement makes a new value with the same key."""

    def value(self, phase: str) -> dict[str, Any]:
        """Render as the completion value of a nemesis event: phase is "inject" or "heal".

        One that was not applied says so, so that no heal is paired with it, nor its own with
        another.
        """
        return {
            "phase": phase,
            "fault": self.fault,
            "targets": list(self.targets),
            "verified": self.verified,
            "detail": dict(self.detail),
            **({} if self.applied else {"applied": False}),
        }


class View(Protocol):
    """What a fault may see and use of the run. The harness supplies it."""

    @property
    def backend(self) -> Backend:
        """Where the nodes run."""

    @property
    def random(self) -> random.Random:
        """The schedule's own seeded generator."""

    @property
    def active(self) -> list[Injection]:
        """Injections that are applied and not yet healed, oldest first; `drive` keeps it."""

    @property
    def controllers(self) -> tuple[str, ...]:
        """Nodes that can be voters."""

    @property
    def bound_s(self) -> float | None:
        """Bound on each call of a fault or of the backend; None: it has none."""

    async def leader(self) -> str | None:
        """Find the leader by the freshest answer, None if unknown: in about a second, no error."""

    async def partition_leader(self) -> str | None:
        """Find the broker that leads most topic partitions, None if unknown; else as `leader`."""


@runtime_checkable
class Fault(Protocol):
    """One kind of fault, without state of its own: what it did is in its Injection."""

    @property
    def name(self) -> str:
        """Name it as plans do: "kill", "pause", "partition", ..."""

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        """Refuse parameters that it does not know, before anything starts: ParameterError."""

    def options(self, nodes: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """Parameters that a random schedule may choose from, in a fixed order."""

    async def probe(self, view: View) -> Probe:
        """Whether it can work here, by trying what can be tried without harm."""

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        """Choose targets and apply it.

        Raises Refusal (illegal now, no leader, ...), or ParameterError, before it has done
        anything. After any other error it counts as applied, and `heal` gets an Injection of which
        only the parameters are known: every node is a target, every link its own, and the detail
        holds the reason alone.
        """

    async def verify(self, view: View, injection: Injection) -> Injection:
        """Measure whether it bit."""

    async def heal(self, view: View, injection: Injection) -> Injection:
        """Undo it and measure that it is gone.

        Idempotent. Right also when a target died, was restarted or was hit by another fault
        meanwhile: it undoes its own effect and no other's.
        """


def name_of(link: Link) -> str:
    """Name a link for the history."""
    return "->".join(link)


def names_of(links: Iterable[Link]) -> list[str]:
    """Name links, sorted."""
    return [name_of(link) for link in sorted(links)]


def others(view: View, injection: Injection) -> list[Injection]:
    """List the other injections in force, oldest first."""
    return [other for other in view.active if other.key is not injection.key]


def refusal(fault: str, parameters: Parameters, reason: str, **detail: Any) -> Injection:
    """Report an injection that was not applied, and why."""
    found = {"reason": reason, **detail}
    return Injection(fault, dict(parameters), (), verified=False, detail=found)


def application(
    fault: str,
    parameters: Parameters,
    targets: Sequence[str],
    detail: Mapping[str, Any],
    links: tuple[Link, ...] = (),
) -> Injection:
    """Report an injection that was applied, and is to be verified."""
    targets, own = tuple(targets), dict(parameters)
    return Injection(fault, own, targets, verified=False, detail=detail, links=links, applied=True)


def add_measurement(
    injection: Injection, found: Mapping[str, Any], reasons: Sequence[str] = ()
) -> Injection:
    """Add to an injection what was measured, and why that does not verify it, if anything."""
    kept = {name: value for name, value in injection.detail.items() if name != "reason"}
    detail = {**kept, **found} | ({"reason": "; ".join(reasons)} if reasons else {})
    return replace(injection, verified=not reasons, detail=detail)


_REASONS = {
    "timers": "time-outs of a real process follow the host's monotonic clock: try --backend sim",
    "addresses": "nodes listen elsewhere in hosts of their own: try --backend netns or docker",
    "roles": "its nodes have the same roles always",
    "releases": "its nodes are of one release: --kafka-version OLD,NEW",
    "detachable": "nodes have no log directory here that could be taken away",
    "requests": "nodes take no signals here",
    "shaping": "links can be shaped only once the cluster is up",
    "messages": "no message by itself can be held on its links: try --backend sim",
}
"""Why abilities are missing that most places lack."""


def absence(view: View, ability: str) -> Probe:
    """Say why the backend has no such ability."""
    reason = view.backend.abilities().missing.get(ability, "") or _REASONS.get(ability, "")
    reason = reason or f"backend {view.backend.name} has no {ability} that faults can act on"
    return Probe(possible=False, reason=reason)


def _require(ability: str, find: Callable[[Abilities], T | None]) -> Callable[[View], T]:
    """Return a function that finds an ability; it raises Refusal where there is none."""

    def find_or_raise(view: View) -> T:
        found = find(view.backend.abilities())
        if found is None:
            raise Refusal(absence(view, ability).reason)
        return found

    return find_or_raise


clocks_of = _require("clocks", lambda abilities: abilities.clocks)
disks_of = _require("disks", lambda abilities: abilities.disks)
detachable_of = _require("detachable", lambda abilities: abilities.detachable)
releases_of = _require("releases", lambda abilities: abilities.releases)
timers_of = _require("timers", lambda abilities: abilities.timers)
messages_of = _require("messages", lambda abilities: abilities.messages)
limits_of = _require("limits", lambda abilities: abilities.limits)
addresses_of = _require("addresses", lambda abilities: abilities.addresses)
roles_of = _require("roles", lambda abilities: abilities.roles)
requests_of = _require("requests", lambda abilities: abilities.requests)
shaping_of = _require("shaping", lambda abilities: abilities.shaping)
