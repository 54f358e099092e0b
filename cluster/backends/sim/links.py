"""Directed links that misbehave at random, and rules that act on chosen messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cluster.backends.abilities import LinkShape
from cluster.backends.sim.encoded import ENCODED, EncodedRequest, EncodedResponse
from cluster.backends.sim.scheduler import Owner, Scheduler
from cluster.backends.sim.settings import SimSettings, Span
from cluster.node.kraft.messages import RaftRequest, RaftResponse
from cluster.values import valueclass

Action = Literal["hold", "drop"]

CLIENT_PREFIX = "c"
"""Names of harness clients begin with it; of link faults only a rule that names them hits them."""

OVERTAKEN_MS = 10.0
"""Extra latency of a message that others are to overtake, on a link without a delay."""

_OWN_MESSAGES = frozenset(get_args(RaftRequest | RaftResponse))
_RAFT_NAMES = frozenset(kind.__name__ for kind in _OWN_MESSAGES)
RAFT_MESSAGES = _OWN_MESSAGES | ENCODED
"""Classes of the messages that raft's nodes exchange."""


def kind_of(message: object) -> str:
    """Name a message's class; "data_messages.FetchRequest" is a Fetch that is none of raft's."""
    kind = type(message)
    if isinstance(message, EncodedRequest | EncodedResponse):
        return message.kind
    if kind.__name__ in _RAFT_NAMES and kind not in RAFT_MESSAGES:
        return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    return kind.__name__


@valueclass
class MessageMatch:
    """Which messages a rule matches; None matches all. JSON-able."""

    kind: str | None = None
    """See `kind_of`: "VoteRequest", "VoteResponse", "FetchResponse", ..."""
    source: str | None = None
    target: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the message and their values, e.g. {"pre_vote": False}."""

    def may(self, source: str, target: str) -> bool:
        """Whether any message of this link may match."""
        return self.source in {None, source} and self.target in {None, target}

    def accepts(self, source: str, target: str, message: object) -> bool:
        """Whether this message matches."""
        return (
            (self.kind is None or kind_of(message) == self.kind)
            and self.may(source, target)
            and all(
                getattr(message, name, _NOTHING) == value for name, value in self.fields.items()
            )
        )


_NOTHING = object()


@valueclass
class LinksMatch:
    """Messages of some types over some links; no type: all types."""

    links: frozenset[tuple[str, str]]
    kinds: frozenset[str]

    def may(self, source: str, target: str) -> bool:
        return (source, target) in self.links

    def accepts(self, source: str, target: str, message: object) -> bool:
        return self.may(source, target) and (not self.kinds or kind_of(message) in self.kinds)


@dataclass(slots=True, eq=False)
class Rule:
    """An action on the messages that match, while the rule is in force.

    `action`: "hold" keeps them in `held` until `release` or `drop_held`; "drop" loses them.
    """

    match: MessageMatch | LinksMatch
    action: Action
    held: list[Transit] = field(default_factory=list)
    ended: bool = False

    def wants(self, source: str, target: str, message: object) -> bool:
        """Whether it acts on this message."""
        return not self.ended and self.match.accepts(source, target, message)

    def end(self) -> None:
        """Act on nothing more; what is held stays held."""
        self.ended = True

    def release(self) -> int:
        """Deliver what is held, in order, now; returns how many messages that are."""
        held, self.held = self.held, []
        for transit in held:
            transit.deliver_late()
        return len(held)

    def drop_held(self) -> None:
        """Lose what is held."""
        self.held = []


@dataclass(slots=True, eq=False)
class Transit:
    """A message that is kept somewhere on its way."""

    scheduler: Scheduler
    link: LinkState
    message: object
    deliver: Callable[[], None]
    owner: Owner | None
    """Whose callback `deliver` is."""

    def deliver_late(self) -> None:
        """Deliver it over its link, which loses it if it is cut."""
        link = self.link
        if not link.cut:
            link.passed += 1
            self.scheduler.call_later(link.latency(), self.deliver, self.owner)


class LinkState:
    """One directed link: what it does, and the stream that decides it."""

    __slots__ = (
        "back",
        "cut",
        "duplication",
        "is_client",
        "kept",
        "loss",
        "low_ms",
        "passed",
        "rules",
        "shape",
        "slow_ms",
        "slow_probability",
        "source",
        "span_ms",
        "stream",
        "target",
    )

    def __init__(self, source: str, target: str, seed: object, settings: SimSettings) -> None:
        self.source = source
        self.target = target
        self.back = self
        """The link the other way, as the mesh joins them."""
        self.is_client = source.startswith(CLIENT_PREFIX) or target.startswith(CLIENT_PREFIX)
        span: Span = settings.client_latency_ms if self.is_client else settings.latency_ms
        self.low_ms, self.span_ms = span[0], span[1] - span[0]
        self.slow_probability = 0.0 if self.is_client else settings.slow_probability
        self.slow_ms = settings.slow_ms
        self.loss = 0.0 if self.is_client else settings.loss
        self.duplication = 0.0 if self.is_client else settings.duplication
        self.shape: LinkShape | None = None
        """The fault in force, in addition to what the link does by itself."""
        self.cut = False
        self.kept: list[Transit] = []
        """Messages that wait for the link to be restored."""
        self.passed = 0
        """Messages that went over it since it was last cut or restored."""
        self.rules: tuple[Rule, ...] | None = None
        """Those that may match a message of it, in order; None: the mesh must select them anew."""
        self.stream = random.Random(f"{seed}/link/{source}/{target}")

    @property
    def loss_now(self) -> float:
        """Share of raft messages that it loses, by itself or by a fault."""
        return self.loss if self.shape is None else max(self.loss, self.shape.loss)

    @property
    def duplication_now(self) -> float:
        """Share of raft messages that it delivers twice, by itself or by a fault."""
        return (
            self.duplication if self.shape is None else max(self.duplication, self.shape.duplicate)
        )

    def latency(self) -> float:
        """Draw how long one message takes, in ms."""
        draw = self.stream.random
        if self.slow_probability and draw() < self.slow_probability:
            slow_ms = self.slow_ms
            own_ms = slow_ms[0] + draw() * (slow_ms[1] - slow_ms[0])
        else:
            own_ms = self.low_ms + draw() * self.span_ms
        return own_ms if self.shape is None else own_ms + self._travel(self.shape)

    def _travel(self, shape: LinkShape) -> float:
        """Draw the extra latency of a shaped link; a message that overtakes has none."""
        if shape.reorder and self.stream.random() < shape.reorder:
            return 0.0
        delay_ms = travel_ms(shape)
        if not shape.jitter_ms:
            return delay_ms
        return max(0.0, delay_ms + self.stream.uniform(-shape.jitter_ms, shape.jitter_ms))


def travel_ms(shape: LinkShape) -> float:
    """Return the extra ms of a message that does not overtake on a shaped link, without jitter."""
    return shape.delay_ms or (OVERTAKEN_MS if shape.reorder else 0.0)
