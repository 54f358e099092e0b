"""What a backend can do to its nodes beyond starting, killing and cutting: one protocol an ability.

A backend provides an object where it has the ability and None where it has not; a fault asks for
the ability and never for the backend. The simulated world has them in its own seams; real backends
use means of the kernel (docs/faults.md), run through a `Host`.

Every method acts at once, is idempotent, and raises `BackendError` with one line where the backend
refuses. The ability remembers what is in force and applies it again to a node that is restarted, or
a container whose namespaces were lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import PurePath
from typing import Any, Literal, Protocol

from cluster.backends.terms import Link, Probe
from cluster.systems.base import Damageable, Listeners
from cluster.values import valueclass


@valueclass
class Completed:
    """The outcome of a command in a host."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    def complaint(self, line: int) -> str:
        """Return what it wrote to stderr: the first line (0), the last (-1); or its exit code."""
        lines = self.stderr.decode(errors="replace").strip().splitlines()
        return lines[line] if lines else f"exit code {self.exit_code}"


class Host(Protocol):
    """The machine of one node: its addresses, files and processes, as the node sees them.

    Outlives the node's process; kernel state that a fault sets (packet filter, queueing, mounts)
    belongs to the host.
    """

    @property
    def node(self) -> str:
        """Its node's name."""

    @property
    def address(self) -> str:
        """Where peers reach the node; loopback when the host has no network of its own."""

    @property
    def folder(self) -> PurePath:
        """The node's folder, as paths are inside the host."""

    @property
    def interpreter(self) -> str:
        """Python inside the host that can import `cluster` with its dependencies."""

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 10.0
    ) -> Completed:
        """Run a command inside the host with the privilege that the backend gives its faults.

        Raises BackendError when it cannot be run at all or does not end in time (it is then
        killed); a non-zero exit code is the caller's to judge.
        """

    async def pid(self) -> int | None:
        """Name the node's live process by its number inside the host; None when there is none."""


class Surroundings(Protocol):
    """What an ability must have in place before a node starts: a clock's file, a disk's mount.

    A backend calls `prepare` before every start of a node, and puts what it returns into the
    environment of the node's process; `relax` before it stops all nodes, and `release` when they
    have ended.
    """

    async def prepare(self, node: str) -> Mapping[str, str]:
        """Put it in place; return variables of the node's environment. Raises BackendError."""

    async def relax(self) -> None:
        """End every fault in force, as the nodes are to stop now. Idempotent; never raises."""

    async def release(self) -> None:
        """Remove it, and leave the node's files in place. Idempotent; never raises."""


@valueclass
class LinkShape:
    """How a directed link misbehaves; the default is a perfect one."""

    loss: float = 0.0
    """Share of packets that vanish, 0 to 1."""
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """Uniform, plus or minus, about the delay."""
    reorder: float = 0.0
    """Share of packets that overtake those before them."""
    duplicate: float = 0.0
    """Share of packets that arrive twice."""
    rate_kbit_s: float | None = None


@valueclass
class ShapeMeasure:
    """What a probe from source to target saw. None: could not be measured here."""

    round_trip_ms: float | None
    """Median."""
    lost: float | None
    """Share of probes that did not arrive."""
    spread_ms: float | None = None
    """Over which the middle nine tenths of the round trips spread."""
    duplicated: float | None = None
    """Share of probes that arrived twice."""
    overtaking: float | None = None
    """Share of probes that arrived before one that was sent earlier."""
    rate_kbit_s: float | None = None
    """At which a burst arrived; measured where a rate is in force."""
    probes: int = 0
    """How many the shares are of."""


class Shaping(Protocol):
    """Links that lose, delay, reorder, duplicate and throttle packets."""

    async def probe(self, shape: LinkShape) -> Probe:
        """Try each part of the shape in a throw-away place."""

    async def shape(self, links: Mapping[Link, LinkShape]) -> None:
        """Give these links a shape; the perfect one removes it.

        Raises BackendError; where a link may have changed all the same, `shapes` has it.
        """

    def shapes(self) -> Mapping[Link, LinkShape]:
        """What is in force."""

    async def measure(self, link: Link) -> ShapeMeasure:
        """Send probes from the link's source to its target, as packets travel now."""


@valueclass
class ClockSetting:
    """What a node's wall clock shows beside the true time; the monotonic clock is never faked."""

    offset_ms: float = 0.0
    rate: float = 1.0
    """Seconds that it shows to have passed in a true second; 1 is no drift."""
    period_ms: float | None = None
    """Strobe: it shows the offset and the true time in turn, each for this long."""


@valueclass
class ClockMeasure:
    """What a program with the node's surroundings reads, less what the harness reads."""

    wall_offset_ms: float
    monotonic_offset_ms: float
    """0 unless the fault leaks into the monotonic clock."""
    setting: ClockSetting | None = None
    """What is in force, where the place makes the clock; None where readings must show it."""


class Clocks(Protocol):
    """Wall clocks that jump, skew, drift and strobe. The host's own clock is never touched."""

    async def probe(self) -> Probe:
        """Fake a clock for a throw-away program and read it."""

    async def set(self, node: str, setting: ClockSetting) -> None:
        """Let the node, running or started later, see this clock from now on."""

    async def measure(self, node: str) -> ClockMeasure:
        """Read the clock that the node's live process sees."""


class Timers(Protocol):
    """Monotonic clocks, and with them all time-outs of a node, that run fast or slow."""

    async def set(self, node: str, rate: float) -> None:
        """Let the node's clocks run `rate` times as fast as its host's from now on."""

    async def measure(self, node: str) -> float:
        """Return how many times as fast as its host's the node's clocks run."""


class DiskFault(enum.StrEnum):
    """The faults of a node's disk. Parameters in brackets."""

    STALL = "stall"
    """Writes and fsyncs wait until the heal."""
    SLOW = "slow"
    """Each write and fsync takes longer [`delay_ms`]."""
    FULL = "full"
    """ENOSPC for every write that would grow a file."""
    FSYNC_ERROR = "fsync-error"
    """EIO from the next fsyncs [`count`]; what they should have kept is lost."""
    WRITE_ERROR = "write-error"
    """EIO from the next writes [`count`]."""
    TORN_WRITE = "torn-write"
    """At the next power loss the last un-fsynced write survives by half."""


@valueclass
class DiskMeasure:
    """The result of a small write and fsync beside the node's data."""

    write_ms: float | None
    fsync_ms: float | None
    """None: did not come back within the time-out."""
    error: str | None
    """The errno's name: "ENOSPC", "EIO", ...; None when both succeeded or hang."""


class Damage(enum.StrEnum):
    """Damage to the files of a dead node, done from outside."""

    BIT_FLIP = "bit-flip"
    """One bit of a byte is inverted."""
    TRUNCATE = "truncate"
    """A file ends at a byte, and what followed is gone."""
    WIPE = "wipe"
    """Every file is gone: the disk was replaced by an empty one."""


class Disks(Protocol):
    """Disks that stall, slow down, fill up, fail, lose what was not fsynced, and rot."""

    damageable: Callable[[Mapping[str, int]], Damageable | None] | None
    """See `cluster.systems.base.System`."""

    async def probe(self, fault: DiskFault | Damage | None = None) -> Probe:
        """Try it on a throw-away disk; None: power loss."""

    async def set(self, node: str, fault: DiskFault, parameters: Mapping[str, float]) -> None:
        """Put a fault of the node's disk in force; several kinds may be in force at once."""

    async def clear(self, node: str, fault: DiskFault) -> None:
        """End that fault; what waits goes on."""

    async def measure(self, node: str, timeout_s: float = 0.5) -> DiskMeasure:
        """Write and fsync a file of the toolkit's own on the node's disk."""

    async def hits(self, node: str) -> Mapping[DiskFault, int]:
        """Count the calls of the node that each kind has hit since it was last set."""

    async def power_loss(
        self, node: str, *, held_ms: float = 0.0, torn: bool = False
    ) -> Mapping[str, Any]:
        """Kill the node and lose every byte, name and length that was not fsynced.

        `held_ms`: for so long before, no fsync comes back, so that there is something to lose.
        `torn`: of the last un-fsynced write the first half survives, and so do writes before it.
        Returns what was lost: {"bytes": ..., "files": ..., ...}. The node stays dead.
        """

    async def files(self, node: str) -> Mapping[str, int]:
        """List the node's files: path below its data folder -> size in bytes, sorted."""

    async def read(self, node: str, path: str, most: int | None = None) -> bytes:
        """Read one of them; `most`: of a long one so many bytes from its beginning."""

    async def damage(
        self, node: str, kind: Damage, path: str = "", position: int = 0, bit: int = 0
    ) -> None:
        """Damage the files of a dead node, and keep aside what they held. WIPE needs no path.

        `bit`: of BIT_FLIP, from 0, the lowest, to 7.
        """

    async def give_up(self, node: str) -> None:
        """Discard what damage to a dead node's files replaced: `restore` cannot undo it then."""

    async def restore(self, node: str) -> int:
        """Undo all damage to a dead node's files, as from a copy; returns how many there were."""


class Detachable(Protocol):
    """Log directories beside that of the metadata, which can be taken away from a node."""

    async def detach(self, node: str) -> str:
        """Let every call to the node's last log directory fail until it is attached again.

        Returns its name. Raises BackendError where the node has only that of the metadata.
        """

    async def attach(self, node: str) -> None:
        """Give it back with all that it held, for the node's next start; else do nothing."""


@valueclass
class LimitMeasure:
    """A limit as the kernel holds it for a live process."""

    soft: int
    """The soft limit, -1 for none."""
    room: int | None = None
    """Of descriptors: how many numbers below the limit are free."""


class Limits(Protocol):
    """Limits of the operating system on a node's live process."""

    async def probe(self, name: str) -> Probe:
        """Try it on a throw-away process; name is "descriptors" or "file-size"."""

    async def set(self, node: str, name: str, value: int | None) -> None:
        """Set the soft limit; None gives back what the process had at its start."""

    async def measure(self, node: str, name: str) -> LimitMeasure:
        """Read the limit now in force."""


class Requests(Protocol):
    """Signals by which an operator has a running node resign or take a snapshot."""

    async def send(self, node: str, what: Literal["resign", "snapshot"]) -> None:
        """Have a leader resign (SIGUSR1), a node take a snapshot (SIGUSR2). Raises BackendError."""

    async def latest_snapshot(self, node: str) -> str:
        """Name the newest checkpoint file of the node's metadata log; empty without one."""


Keep = Literal["any", "nothing", "everything"]
"""What survives of writes that were not fsynced; any: of each file some prefix of them."""


class Crashes(Protocol):
    """Kills that determine what survives of writes that were not fsynced."""

    @property
    def keeps(self) -> str:
        """What `Backend.kill` keeps, which has no such parameter: a `Keep`."""

    async def kill(self, node: str, keep: Keep) -> None:
        """As `Backend.kill`; `keep`: what survives of writes that were not fsynced."""


class Messages(Protocol):
    """Holding back messages between nodes, each a whole message of the protocol."""

    async def hold(self, links: Sequence[Link], types: Sequence[str]) -> str:
        """Hold back messages of these types (none: all types) that are sent over these links.

        A type is the name of a class of `cluster.node.kraft.messages`. Returns the hold's name.
        """

    async def count_held(self, name: str) -> int | None:
        """Count the messages that a hold keeps; None when there is no such hold (any more)."""

    async def release(self, name: str, links: Sequence[Link] = (), *, deliver: bool = True) -> int:
        """End a hold on some of its links, on all when none is named; returns how many it kept.

        They are delivered in the order in which they were sent, or lost.
        """


class Releases(Protocol):
    """Releases of the system that a node can be started as, one after the other."""

    @property
    def names(self) -> tuple[str, ...]:
        """What a process of each prints of itself; the first is that of the first start."""

    def number(self, node: str) -> int:
        """Return the place in `names` of what the node is started as."""

    async def choose(self, node: str, number: int) -> None:
        """Let a dead node be that release from its next start on; BackendError if it lives."""

    async def measure(self, node: str) -> str | None:
        """Return what the node's last process printed of its release; None: nothing yet."""


class Addresses(Protocol):
    """Where nodes' controllers listen, which can be elsewhere at a later start."""

    async def change_address(self, node: str) -> None:
        """Let a dead node's controller listen at another port from its next start on.

        The files of all nodes name it; who runs reads them at its own next start. Raises
        BackendError where the node lives.
        """


class Roles(Protocol):
    """Where nodes listen, as brokers, controllers or both, which can be others at a later start."""

    def listeners(self, node: str) -> Listeners:
        """Return those of the node's last configuration."""

    async def change(self, node: str, listeners: Listeners) -> None:
        """Let a dead node start with those; BackendError if it lives."""


@valueclass
class Abilities:
    """The abilities of one backend; None for those that it lacks, with the reason in `missing`."""

    shaping: Shaping | None = None
    clocks: Clocks | None = None
    disks: Disks | None = None
    """Of the folder of the metadata, and of what else is in it."""
    detachable: Detachable | None = None
    limits: Limits | None = None
    requests: Requests | None = None
    releases: Releases | None = None
    """None where nodes are of one release."""
    addresses: Addresses | None = None
    roles: Roles | None = None
    timers: Timers | None = None
    crashes: Crashes | None = None
    """None: a kill is the end of a process, and the operating system has what it wrote."""
    messages: Messages | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    """Field name -> one line that says why this backend can never have it."""
