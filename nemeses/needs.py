"""What the abilities of a backend are asked for, and what to say where there are none."""

from __future__ import annotations

from cluster.backends.abilities import Clocks, Disks, Limits, Messages, Timers
from cluster.backends.base import BackendError, Probe
from nemeses.base import View

SIM_ONLY = {
    "timers": "time-outs of a real process follow the host's monotonic clock: try --backend sim",
    "messages": "real links carry bytes, and no message by itself can be held: try --backend sim",
}
"""Abilities that no real place has, and why."""


def lacking(view: View, ability: str) -> Probe:
    """Say why the backend has no such ability."""
    reason = view.backend.abilities().missing.get(ability, "") or SIM_ONLY.get(ability, "")
    told = reason or f"backend {view.backend.name} has no {ability} that faults can act on"
    return Probe(possible=False, reason=told)


def clocks_of(view: View) -> Clocks:
    """Return the backend's clocks. Raises BackendError where it has none."""
    clocks = view.backend.abilities().clocks
    if clocks is None:
        raise BackendError(lacking(view, "clocks").reason)
    return clocks


def disks_of(view: View) -> Disks:
    """Return the backend's disks. Raises BackendError where it has none."""
    disks = view.backend.abilities().disks
    if disks is None:
        raise BackendError(lacking(view, "disks").reason)
    return disks


def timers_of(view: View) -> Timers:
    """Return the backend's timers. Raises BackendError where it has none."""
    timers = view.backend.abilities().timers
    if timers is None:
        raise BackendError(lacking(view, "timers").reason)
    return timers


def messages_of(view: View) -> Messages:
    """Return the messages of the backend. Raises BackendError where it cannot hold them."""
    messages = view.backend.abilities().messages
    if messages is None:
        raise BackendError(lacking(view, "messages").reason)
    return messages


def limits_of(view: View) -> Limits:
    """Return the backend's limits. Raises BackendError where it has none."""
    limits = view.backend.abilities().limits
    if limits is None:
        raise BackendError(lacking(view, "limits").reason)
    return limits
