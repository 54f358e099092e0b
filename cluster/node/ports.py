"""The four seams through which a node sees the world: clock, network, disk and randomness.

The node's logic is single-threaded, callback-driven and does no I/O of its own. The real world
(`cluster.node.runtime`) puts asyncio TCP, files and real time behind these protocols; a simulated
world puts one seeded event loop behind them. No code outside an implementation of a seam may call
`time`, `random`, `socket`, `open` or `asyncio` on behalf of a node.

Every callback is called on the node's own task, never re-entrantly from within the call that
registered it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from cluster.values import valueclass

T = TypeVar("T")


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has already run."""


class Clock(Protocol):
    """Time. Only `monotonic_ms` may steer the protocol; `wall_ms` is data."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary origin; never goes back, never jumps."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch as this host believes it; may jump either way."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the node's task once `delay_ms` (>= 0) have passed."""


class Random(Protocol):
    """The node's only source of randomness (`random.Random` fits)."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def randrange(self, start: int, stop: int) -> int:
        """An integer in [start, stop)."""

    def choice(self, seq: Sequence[T]) -> T:
        """One element of a non-empty sequence."""

    def getrandbits(self, k: int) -> int:
        """A non-negative integer of k random bits."""


def backoff_ms(failures: int, first_ms: float, max_ms: float, random: Random) -> float:
    """Return how long to wait after so many failures: longer each time, a little at random."""
    return min(first_ms * 2.0 ** min(failures, 10), max_ms) * (0.8 + 0.4 * random.random())


Completion = Callable[[OSError | None], None]
"""Called with None when everything it stands for is durable, else the error; see `Disk`."""


def nothing() -> None:
    """Follow what nobody waits for."""


class Disk(Protocol):
    """A folder of the node's own. Paths are relative to it, with `/`.

    Contract:
    - Mutating calls (append, write, truncate, rewrite, rename, remove, ...) never block and
      never fail at the call: they join one FIFO queue that is applied in order.
    - Nothing is durable until a `sync` (file content) or `sync_directory` (names created,
      renamed or removed in it) that was queued *after* it has reported None.
    - A power loss may keep any prefix of the unsynced changes of a file, with the last one torn.
    - A kill of the process keeps a prefix, in order, of all queued calls. Appended bytes that no
      sync has reached are lost with the process, unless they were appended `at_once`.
    - The first error of any queued call is reported by the next completion, and by every one
      after that: a disk that failed stays failed, nothing queued behind the error is applied,
      and an fsync is never tried again. What a sync `aside` was to make durable counts as lost
      until that very sync has reported None: another of the same file may not meet its error.
    - Reads see at least all that was synced, and what was appended `at_once` before a `barrier`
      that has completed. They may or may not see what is still queued, so a caller that needs its
      own unsynced bytes keeps them in memory.
    """

    def append(self, path: str, data: bytes, *, at_once: bool = False) -> None:
        """Add bytes to the end of a file, which is created when missing.

        Without `at_once` they may stay in the process until the next sync of the file: right for
        what counts only when it is durable. With it they, and all that was appended to the file
        before, go to the kernel when their turn in the queue comes: right for what counts when
        it is replicated. From then on a kill keeps them; a power loss may lose them until a sync.
        """

    def write(self, path: str, data: bytes) -> None:
        """Replace the whole content of a file (not atomic: write, sync, then rename)."""

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes."""

    def rewrite(self, path: str, offset: int) -> None:
        """Write again, in place, what a file has from `offset` on.

        What was read may be what a process that died could not sync. Linux keeps it in its cache,
        marked as written: no sync makes it durable before it is written again.
        """

    def rename(self, source: str, target: str) -> None:
        """Atomically name `source`, a file or a whole folder, `target`, which it replaces."""

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is missing."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents; no error when it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove a folder and all that is in it; no error when it is missing."""

    def sync(self, path: str, done: Completion, *, aside: bool = False) -> None:
        """Fsync the file once everything queued before is applied, then call `done`.

        With `aside` the queue goes on meanwhile: right for what is large and nobody waits for. What
        is queued behind it may be applied, and reported, before; it covers what the file had when
        the queue came to it, whatever becomes of its name. These syncs are done one after the
        other, in the order of the queue. One that fails is an error like any other.
        """

    def sync_directory(self, path: str, done: Completion, *, aside: bool = False) -> None:
        """Fsync a folder once everything queued before is applied, then call `done`; see `sync`."""

    def barrier(self, done: Completion) -> None:
        """Call `done` once everything queued before is applied; that makes nothing durable."""

    def read(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """Up to `size` bytes (all when None) from `offset`. Raises FileNotFoundError, OSError."""

    def size(self, path: str) -> int:
        """Size in bytes. Raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder has this name."""

    def list_directory(self, path: str) -> tuple[str, ...]:
        """Names in a folder, sorted; empty when the folder is missing."""

    def volume_bytes(self) -> tuple[int, int] | None:
        """Total and usable bytes of the volume, None when it has no size. Raises OSError."""


class Failure(enum.Enum):
    """Why a request has no response, by what that says about the request's fate."""

    NOT_SENT = "not-sent"
    """No byte of it left: connection refused, name unknown. It certainly had no effect."""
    DISCONNECTED = "disconnected"
    """The connection ended after bytes were sent: it may have had its effect, or may still."""
    TIMED_OUT = "timed-out"
    """No response in time: as above."""
    WRONG_ANSWER = "wrong-answer"
    """There was an answer, of which no sense could be made: its fate is unknown as well."""
    UNSUPPORTED_VERSION = "unsupported-version"
    """The peer serves no version of this API that we speak. It had no effect."""


Channel = Callable[[object, float, Callable[[Any], None]], None]
"""(request, time-out in ms, callback): asks the active controller; the callback gets its response
or a Failure."""


@valueclass(order=True)
class Endpoint:
    """Where a node listens. Bootstrap servers of unknown id have ids -2, -3, ..."""

    node_id: int
    host: str
    port: int


Response = Any
"""A response message: a flat dataclass of `cluster.node.kraft.messages`, or a kio entity."""


class Network(Protocol):
    """Requests to peers, each answered later, or never."""

    def request(
        self,
        destination: Endpoint,
        message: object,
        timeout_ms: float,
        on_reply: Callable[[Response | Failure], None],
    ) -> None:
        """Send one request message; `on_reply` gets its response or a `Failure`.

        Requests to one destination are sent in order. The real network calls `on_reply` exactly
        once; a caller must nevertheless survive none or several calls, which is what a faulty
        network looks like.
        """


class Trace(Protocol):
    """The node's structured event trace, evidence for the safety checks."""

    def __call__(self, event: str, /, **fields: object) -> None:
        """Record one event with JSON-able fields; see `docs/evidence.md` for the vocabulary."""
