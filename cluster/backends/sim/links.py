"""Directed links that misbehave at random, and holds that keep chosen messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from cluster.backends.abilities import LinkShape
from cluster.backends.sim.encoded import ENCODED, EncodedRequest, EncodedResponse
from cluster.backends.sim.scheduler import Owner, Scheduler
from cluster.backends.sim.settings import SimSettings, Span
from cluster.node.kraft.messages import RaftRequest, RaftResponse

CLIENT_PREFIX = "c"
"""Names of harness clients begin with it; of link faults only a hold of their links hits them."""

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


@dataclass(slots=True, eq=False)
class Hold:
    """Keeps messages of some types over some links; no type: all types."""

    links: frozenset[tuple[str, str]]
    """Empty: it is over; what it kept stays with it."""
    kinds: frozenset[str]
    held: list[Transit] = field(default_factory=list)

    def wants(self, source: str, target: str, message: object) -> bool:
        """Whether it keeps this message."""
        return (source, target) in self.links and (not self.kinds or kind_of(message) in self.kinds)


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
        "holds",
        "is_client",
        "kept",
        "loss",
        "low_ms",
        "passed",
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
        self.holds: tuple[Hold, ...] | None = None
        """Those that may keep a message of it, in order; None: the mesh must select them anew."""
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
