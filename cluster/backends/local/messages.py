"""Messages that are held between processes of one machine (abilities.Messages).

What the proxies decode (`cluster.backends.links.messages`) is kept here until its release. A
message whose connection lives goes out on it, behind what has passed meanwhile. A request whose
connection is gone goes out on a new one, on which the target's response is lost; a response whose
connection is gone is lost itself, as nobody is there to hear it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.backends.base import BackendError, Link
from cluster.backends.links.messages import KINDS, Held, Hold
from cluster.backends.links.proxy import LinkProxies, Way


class LocalMessages:
    """See `cluster.backends.abilities.Messages`. Listeners must be plain: see `local`."""

    def __init__(self, proxies: LinkProxies) -> None:
        self._proxies = proxies
        self._made = 0
        self._holds: dict[str, Hold] = {}

    async def hold(self, links: Sequence[Link], types: Sequence[str]) -> str:
        hold = Hold(set(links), frozenset(KINDS[name] for name in types))
        for link in links:
            for listener in hold.listeners:
                self._proxies.sieves[link, listener].begin(hold)
        try:
            _check(hold)
        except BackendError:
            self._end(hold, links)
            raise
        self._made += 1
        name = f"hold-{self._made}"
        self._holds[name] = hold
        return name

    async def count_held(self, name: str) -> int | None:
        """See `Messages.count_held`. Raises BackendError when messages may have passed unread."""
        hold = self._holds.get(name)
        if hold is None:
            return None
        _check(hold)
        return len(hold.held)

    async def release(self, name: str, links: Sequence[Link] = (), *, deliver: bool = True) -> int:
        """See `Messages.release`; counts no response that nobody is there to hear."""
        hold = self._holds.get(name)
        if hold is None:
            return 0
        out = self._end(hold, links or tuple(hold.links))
        if not hold.links:
            del self._holds[name]
        count = self._deliver(out) if deliver else len(out)
        _check(hold)
        return count

    def forget(self) -> None:
        """End all holds and lose what they kept. Idempotent; never raises."""
        for hold in self._holds.values():
            self._end(hold, tuple(hold.links))
        self._holds.clear()

    def _end(self, hold: Hold, links: Sequence[Link]) -> list[Held]:
        """End a hold on some links, and return what it kept there."""
        for link in hold.links.intersection(links):
            for listener in hold.listeners:
                self._proxies.sieves[link, listener].holds.remove(hold)
        hold.links.difference_update(links)
        out = [held for held in hold.held if held.link not in hold.links]
        hold.held = [held for held in hold.held if held.link in hold.links]
        return out

    def _deliver(self, messages: Sequence[Held]) -> int:
        anew: dict[Way, list[bytes]] = {}
        lost = 0
        for held in messages:
            if held.stream.takes_frames:
                held.stream.insert(held.frame)
            elif held.stream.requests:
                anew.setdefault((held.link, held.listener), []).append(held.frame)
            else:
                lost += 1
        for way, frames in anew.items():
            self._proxies.say_anew(way, frames)
        return len(messages) - lost


def _check(hold: Hold) -> None:
    """Raise BackendError when a link of a hold carried what is not Kafka's protocol."""
    if hold.undecoded:
        links = ", ".join(f"{source}>{target}" for source, target in sorted(hold.undecoded))
        raise BackendError(f"messages on {links} cannot be told apart: not Kafka's protocol")
