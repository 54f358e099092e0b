"""The fault `hold`: messages are held between two nodes, and arrive late or never.

A held message may arrive after an election, or after its sender or its receiver was started again,
as a network of datagrams may do. Single messages are known on backend `sim` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cluster.backends.base import Link
from cluster.names import unknown
from nemeses.base import (
    Injection,
    ParameterError,
    Parameters,
    View,
    add_measurement,
    application,
    before_acting,
    messages_of,
)
from nemeses.fault_kind import FaultKind
from nemeses.links.grudges import links_of

MESSAGE_TYPES = (
    *("VoteRequest", "VoteResponse"),
    *("BeginQuorumEpochRequest", "BeginQuorumEpochResponse"),
    *("EndQuorumEpochRequest", "EndQuorumEpochResponse"),
    *("FetchRequest", "FetchResponse"),
    *("FetchSnapshotRequest", "FetchSnapshotResponse"),
)
"""Types that may be named: classes of `cluster.node.kraft.messages`."""
THEN = ("deliver", "drop")


class Hold(FaultKind):
    """Messages between nodes are kept until the heal delivers them in order (sim only).

    Parameters: types (comma text of MESSAGE_TYPES; empty, the default: all messages), links
    ("n1>n2,n2-n3", "-" for both ways; empty, the default: all links), then ("deliver", the default,
    or "drop": the heal loses them).
    """

    name = "hold"
    target = None
    choices: ClassVar = {"then": THEN}
    keys = ("types", "links")
    nodes_min = 2
    favourites = ()
    variants = tuple(
        {"types": kind, "then": then}
        for kind in ("VoteRequest", "VoteResponse", "FetchRequest", "FetchResponse")
        for then in THEN
    )
    needs = "messages"

    def check(self, parameters: Parameters, nodes: tuple[str, ...]) -> None:
        super().check(parameters, nodes)
        links_of(self.name, parameters.get("links", ""), nodes)
        types = parameters.get("types", "")
        if not isinstance(types, str):
            raise ParameterError(f"types of {self.name} must be text, not {types!r}")
        for kind in filter(None, types.split(",")):
            if kind not in MESSAGE_TYPES:
                raise ParameterError(unknown("type of message", kind, MESSAGE_TYPES))

    async def inject(self, view: View, parameters: Parameters) -> Injection:
        nodes = view.backend.nodes
        self.check(parameters, nodes)
        messages = messages_of(view)
        named = links_of(self.name, parameters.get("links", ""), nodes)
        links = named or tuple((a, b) for a in nodes for b in nodes if a != b)
        types = [kind for kind in parameters.get("types", "").split(",") if kind]
        with before_acting():  # of an error it undoes what it has done
            hold = await messages.hold(links, types)
        ends = dict.fromkeys(end for link in links for end in link)
        return application(self.name, parameters, tuple(ends), {"hold": hold}, links)

    async def verify(self, view: View, injection: Injection) -> Injection:
        """See `Fault.verify`: the hold is in force, whether or not a message came yet."""
        held = await messages_of(view).count_held(injection.detail["hold"])
        return add_measurement(injection, {}, ["nothing is held"] if held is None else [])

    async def heal(self, view: View, injection: Injection) -> Injection:
        deliver = injection.parameters.get("then", THEN[0]) == THEN[0]
        messages, hold = messages_of(view), injection.detail["hold"]
        count = await messages.release(hold, deliver=deliver)
        over = await messages.count_held(hold) is None
        found = {"delivered" if deliver else "dropped": count}
        return add_measurement(injection, found, [] if over else ["messages are held still"])

    @staticmethod
    async def release(view: View, injection: Injection, links: Sequence[Link]) -> int:
        """End the hold on some of its links only and deliver their messages; return how many."""
        return await messages_of(view).release(injection.detail["hold"], links)
