"""The abilities of a backend that faults need, and the reason where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cluster.backends.abilities import Abilities
from cluster.backends.base import BackendError, Probe
from nemeses.base import View

T = TypeVar("T")

_REASONS = {
    "timers": "time-outs of a real process follow the host's monotonic clock: try --backend sim",
    "releases": "its nodes are of one release: --kafka-version OLD,NEW",
    "messages": "no message by itself can be held on its links: try --backend local or sim",
}
"""Why abilities are missing that most places lack."""


def lacking(view: View, ability: str) -> Probe:
    """Say why the backend has no such ability."""
    reason = view.backend.abilities().missing.get(ability, "") or _REASONS.get(ability, "")
    reason = reason or f"backend {view.backend.name} has no {ability} that faults can act on"
    return Probe(possible=False, reason=reason)


def _require(ability: str, find: Callable[[Abilities], T | None]) -> Callable[[View], T]:
    """Return a function that finds an ability; it raises BackendError where there is none."""

    def find_or_raise(view: View) -> T:
        found = find(view.backend.abilities())
        if found is None:
            raise BackendError(lacking(view, ability).reason)
        return found

    return find_or_raise


clocks_of = _require("clocks", lambda abilities: abilities.clocks)
disks_of = _require("disks", lambda abilities: abilities.disks)
detachable_of = _require("log directories", lambda abilities: abilities.detachable)
releases_of = _require("releases", lambda abilities: abilities.releases)
timers_of = _require("timers", lambda abilities: abilities.timers)
messages_of = _require("messages", lambda abilities: abilities.messages)
limits_of = _require("limits", lambda abilities: abilities.limits)
