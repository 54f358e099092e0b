"""Invariants of brokers' sessions with the active controller, over what a simulated world sees.

They read events that no node traces (`harness/sim/sights/sessions.py`): heartbeats, registrations
and their answers as they arrive, beside what the active controller has appended and committed. What
its own broker asks of it passes no network, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.invariants.fold import Broken, rule, rules_of
from checkers.invariants.sight import Fields

Session = tuple[int, int]
"""A broker and its epoch."""


@dataclass(frozen=True, slots=True)
class Registered:
    """An incarnation of a broker that a controller has just registered."""

    broker: int
    epoch: int
    silent_ms: float
    """For how long at least the incarnation before had not been heard of; infinite: it was fenced,
    was shutting down, or is the same."""
    session_ms: float
    is_clean: bool
    """Whether the incarnation before may have been stopped in order, and told so."""
    eligible: tuple[str, ...]
    """Partitions of whose ELR it is, as `topic-index`."""


@rule("broker-fenced", "KIP-631, broker.session.timeout.ms; KAFKA-19294")
def fenced_silent(node: str, fields: Fields) -> Broken | None:
    """A broker is fenced when it asks for that, or was silent for as long as its session.

    A controller that has just claimed has heard of nobody, and gives each unfenced broker a
    session.
    """
    silent_ms, session_ms = fields["silent_ms"], fields["session_ms"]
    if silent_ms >= session_ms:
        return None
    return Broken(
        f"{node} fenced broker {fields['broker']}, which had not been silent for more than "
        f"{silent_ms:.0f} ms since it claimed, of {session_ms:g} ms"
    )


@rule("broker-silent", "KIP-631, broker.session.timeout.ms; KAFKA-18138")
def silent_fenced(node: str, fields: Fields) -> Broken | None:
    """A broker that is silent is fenced: twice its session is more than enough.

    The controller looks four times in a session. Judged while its clock keeps its rate, and half a
    session after that time was seen to be over: one that was stopped looks when it goes on.
    """
    return Broken(
        f"{node} has not heard of broker {fields['broker']} for {fields['silent_ms']:.0f} ms, "
        f"of a session of {fields['session_ms']:g} ms, and has not fenced it"
    )


@rule("broker-registered", "KIP-631, broker.session.timeout.ms")
def one_incarnation(node: str, fields: Fields) -> Broken | None:
    """No second incarnation of a broker is registered before the session of the first has ended."""
    seen: Registered = fields["registered"]
    if seen.silent_ms >= seen.session_ms:
        return None
    return Broken(
        f"{node} registered another incarnation of broker {seen.broker}, with epoch "
        f"{seen.epoch}, {seen.silent_ms:.0f} ms after it had heard of the one before, whose "
        f"session lasts {seen.session_ms:g} ms"
    )


@rule("broker-registered", "KIP-966, unclean shutdown")
def unclean_ineligible(node: str, fields: Fields) -> Broken | None:
    """A broker that ended uncleanly is no eligible leader: it may lack what it had not flushed."""
    seen: Registered = fields["registered"]
    if seen.is_clean or not seen.eligible:
        return None
    return Broken(
        f"{node} registered broker {seen.broker} after an unclean shutdown, with epoch "
        f"{seen.epoch}, and keeps it in the ELR of {', '.join(seen.eligible)}"
    )


@rule("broker-released", "KIP-631, controlled shutdown")
def released_in_time(node: str, fields: Fields) -> Broken | None:
    """A broker that shuts down may end once every active broker knows that it leads nothing."""
    offset: int = fields["offset"]
    known: Mapping[int, int] = fields["known"]
    late = {broker: reached for broker, reached in known.items() if reached < offset}
    if not late:
        return None
    broker, reached = min(late.items())
    return Broken(
        f"{node} lets broker {fields['broker']} end, whose shutdown began at offset {offset} "
        f"or later, while broker {broker} has said that it knows the metadata up to {reached}"
    )


@rule("heartbeat-sent", "KIP-858, BrokerHeartbeat, OfflineLogDirs")
def offline_reported(node: str, fields: Fields) -> Broken | None:
    """A heartbeat names all log directories out of use that the broker's metadata have online.

    One that is named once may be lost with its heartbeat: what was led from there keeps no leader.
    """
    left_out = sorted({*fields["lost"]} - {*fields["named"]})
    if not left_out:
        return None
    return Broken(
        f"{node} has lost log directory {left_out[0]}, which its metadata have online, and "
        f"sends a heartbeat of broker {fields['broker']} that does not name it"
    )


SESSIONS = rules_of(__name__)
