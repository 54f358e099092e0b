"""The fault `limit`: limits of the operating system on a live process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from cluster.backends.base import BackendError, ClientNetwork, NodeState, Probe
from cluster.node.kraft.messages import DescribeQuorumRequest
from cluster.node.ports import Failure
from nemeses.base import Injection, View, absence, limits_of
from nemeses.node_fault import NodeFault, Seen, alive, ended_itself, notes_of, start_if_dead
from nemeses.queries import request

LIMITS = ("descriptors", "file-size")
DEFAULTS = {"descriptors": 16, "file-size": 4096}
NOTICED_S = 8.0
"""How long a process may take to run into its limit, and the backend to notice that it ended."""
PRESSED_MAX = 128
"""Connections that are opened at most, to use up the descriptors that a process has left."""


class Limit(NodeFault):
    """A node may open only few files (EMFILE), or none may grow beyond few bytes (EFBIG).

    Parameters: targets (default random), limit ("descriptors", the default, or "file-size"), value
    (default 16 descriptors, 4,096 bytes). A node that cannot write its log may end itself; one that
    cannot take a connection has to wait. The heal gives the limit back, or starts the node.
    """

    name = "limit"
    family = "limit"
    numbers: ClassVar = {"value": (16, 0, 2**40)}
    choices: ClassVar = {"limit": LIMITS}
    variants = tuple({"limit": limit} for limit in LIMITS)
    may_end_node = True

    async def probe(self, view: View) -> Probe:
        limits = view.backend.abilities().limits
        if limits is None:
            return absence(view, "limits")
        for name in LIMITS:
            probe = await limits.probe(name)
            if not probe.possible:
                return probe
        return Probe(possible=True)

    async def apply(self, view: View, node: str, chosen: Mapping[str, Any]) -> Seen:
        """Set it. A leader that writes all the time may be gone before this returns."""
        name, value = _requested_limit(chosen)
        incarnation = view.backend.incarnation(node)
        detail: dict[str, Any] = {"incarnation": incarnation}
        detail["before"] = (await limits_of(view).measure(node, name)).soft
        try:
            await limits_of(view).set(node, name, value)
        except BackendError:
            if not await ended_itself(view, node, incarnation, NOTICED_S):
                raise
        return Seen(detail)

    async def bites(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure the effect of the limit: that it is in force does not show an effect."""
        name, value = _requested_limit(injection.detail["chosen"][node])
        try:
            if name == "descriptors":
                seen = await _refuses_connections(view, node, value)
            else:
                now = (await limits_of(view).measure(node, name)).soft
                seen = Seen({"now": now}, f"{node}: no write of it failed within {NOTICED_S:g} s")
        except BackendError as error:
            seen = Seen(wrong=str(error))
        # A process that ended by itself was hit. It may be gone, or going, whatever it shows: the
        # kernel lifts the file size limit of one that exits while it writes its account of it
        # (kernel/acct.c).
        incarnation = notes_of(injection, node)["incarnation"]
        if seen.wrong and await ended_itself(view, node, incarnation, NOTICED_S):
            return Seen({"ended_itself": True})
        return seen

    async def undo(self, view: View, node: str, injection: Injection) -> None:
        """Set the limits that the process had before; a process started since has its own."""
        name, _ = _requested_limit(injection.detail["chosen"][node])
        try:
            await limits_of(view).set(node, name, None)
        except BackendError:
            # It may have ended itself between the look for its process and the call.
            if await view.backend.state(node) is not NodeState.DEAD:
                raise
        await start_if_dead(view, node, injection)

    async def check_gone(self, view: View, node: str, injection: Injection) -> Seen:
        """Measure that the kernel holds the process to another limit; one that is dead has none."""
        lives = await alive(view, node, injection)
        if "left_to" in lives.detail:
            return lives
        name, value = _requested_limit(injection.detail["chosen"][node])
        now = (await limits_of(view).measure(node, name)).soft
        if now == value != notes_of(injection, node).get("before"):
            return Seen({"now": now}, f"{node}: the limit is still {now}")
        return Seen({"now": now, **lives.detail}, lives.wrong)


def _requested_limit(chosen: Mapping[str, Any]) -> tuple[str, int]:
    name = str(chosen.get("limit", LIMITS[0]))
    return name, int(chosen.get("value", DEFAULTS[name]))


async def _refuses_connections(view: View, node: str, value: int) -> Seen:
    """Open connections until the node has no descriptor left for one, and see that it has none.

    The kernel takes the connection, and the node cannot: its request stays unanswered, while the
    process has no free descriptor below its limit. Either alone would show nothing: a busy node
    does not answer in time, and one that has what it needs does not feel its limit.
    """
    networks: list[ClientNetwork] = []
    endpoint = view.backend.endpoint(node, "CONTROLLER")
    answer: object = None
    try:
        for _ in range(min(value, PRESSED_MAX) + 1):
            networks.append(view.backend.client_network())
            answer = await request(networks[-1], endpoint, DescribeQuorumRequest())
            if isinstance(answer, Failure):
                break
        measured = await limits_of(view).measure(node, "descriptors")
    finally:
        for network in networks:
            network.close()
    detail = {"now": measured.soft, "room": measured.room, "connections": len(networks)}
    if measured.soft != value:
        return Seen(detail, f"{node}: the limit is {measured.soft}")
    if not isinstance(answer, Failure):
        return Seen(detail, f"{node} answers on {len(networks)} more connections")
    if measured.room != 0:
        return Seen(detail, f"{node} has {measured.room} descriptors left, and does not answer")
    return Seen({**detail, "unanswered": answer.value})
