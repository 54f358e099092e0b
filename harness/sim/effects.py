"""What faults do to a simulated world, and how each is undone.

Links are cut and disks stalled by count, so that of two faults that overlap the one that ends first
does not undo the other. `join`, `start`, `resume` and `heal` undo whatever there is.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

from cluster.backends.base import NodeState
from cluster.backends.sim.disk import Keep
from cluster.backends.sim.mesh import MessageMatch, Rule
from cluster.backends.sim.process import Process
from cluster.backends.sim.world import SimWorld
from cluster.node.log.records import parse_header
from harness.sim.reconfigure import Reconfigurer
from harness.sim.watch import Watch

Undo = Callable[[], None]
Link = tuple[str, str]
Group = tuple[frozenset[str], tuple[Link, ...]]
"""Links that were cut together, and the nodes on whose account."""
FOLDER = "__cluster_metadata-0"


@dataclass(slots=True)
class Effects:
    """Everything that faults have done to one world and that is not undone yet."""

    world: SimWorld
    watch: Watch
    excused: set[tuple[str, int]] = field(default_factory=set)
    """(node, incarnation) that may die by itself: its disk was made to fail."""
    lost: set[str] = field(default_factory=set)
    """Nodes whose files were damaged: they must refuse to start, and are not started again."""
    voters: Reconfigurer = field(init=False)
    """Makes changes of the voter set."""
    _cuts: Counter[Link] = field(default_factory=Counter)
    _groups: list[Group] = field(default_factory=list)
    _stalls: Counter[str] = field(default_factory=Counter)
    _rules: list[tuple[Link, Rule]] = field(default_factory=list)
    _rates: dict[str, float] = field(default_factory=dict)
    """What each clock's rate was before any fault."""
    _undone_late: list[Undo] = field(default_factory=list)
    _stopping: list[Process] = field(default_factory=list)
    """Those that were asked to stop, for a restart."""
    _starts: int = 0
    """Restarts whose node is down."""

    def __post_init__(self) -> None:
        self.voters = Reconfigurer(self.world, self.watch)

    # -- voters ----------------------------------------------------------------------------------

    def change_voters(self, nodes: Sequence[str], change: str) -> None:
        """Have an operator change the voters; it goes on by itself until it is committed."""
        if change == "upgrade":
            self.voters.upgrade()
        for node in nodes:
            if change == "add":
                self.voters.add(node)
            elif change == "remove":
                self.voters.remove(node)

    def wipe(self, nodes: Sequence[str], down_ms: float, repair_ms: float) -> None:
        """Lose the disk of one node, where a quorum is expected to survive that."""
        for node in nodes:
            if node not in self.lost and self.voters.wipe(node, down_ms, repair_ms):
                return

    def resign(self, nodes: Sequence[str]) -> None:
        """Have leaders give up, as SIGUSR1 does."""
        for node in nodes:
            self.world.signal(node, "resign")

    def snapshot(self, nodes: Sequence[str]) -> None:
        """Have nodes snapshot, as SIGUSR2 does."""
        for node in nodes:
            self.world.signal(node, "snapshot")

    # -- processes -------------------------------------------------------------------------------

    def kill(self, nodes: Sequence[str], keep: str) -> Undo:
        """Take the power away."""
        for node in nodes:
            self.world.kill(node, cast("Keep", keep))
        return lambda: self.start(nodes)

    def restart(self, nodes: Sequence[str], down_ms: float, keep: str, *, graceful: bool) -> None:
        """End nodes and start them `down_ms` later."""
        for node in nodes:
            process = self.world.nodes[node].process
            if graceful and process is not None and process.runs:
                self._stopping.append(process)
                self.world.stop(node, partial(self._stopped, process, down_ms))
            else:
                self.world.kill(node, cast("Keep", keep))
                self._start_later(node, down_ms)

    def _stopped(self, process: Process, down_ms: float) -> None:
        self._stopping.remove(process)
        self._start_later(process.name, down_ms)

    def _start_later(self, node: str, down_ms: float) -> None:
        def start() -> None:
            self._starts -= 1
            self.start((node,))

        self._starts += 1
        self.world.scheduler.call_later(down_ms, start)

    @property
    def restarts(self) -> bool:
        """Whether a node is being restarted: a heal does not hurry one that was asked to stop."""
        return self._starts > 0 or any(process.alive for process in self._stopping)

    def start(self, nodes: Sequence[str]) -> None:
        """Start those that are down, unless their files are damaged."""
        for node in nodes:
            if self.world.nodes[node].state is NodeState.DEAD and node not in self.lost:
                self.world.start(node)

    def pause(self, nodes: Sequence[str]) -> Undo:
        """Stop processes as SIGSTOP does."""
        for node in nodes:
            self.world.pause(node)
        return lambda: self.resume(nodes)

    def resume(self, nodes: Sequence[str]) -> None:
        """Let them go on."""
        for node in nodes:
            self.world.resume(node)

    # -- links -----------------------------------------------------------------------------------

    def cut(self, nodes: Sequence[str], links: Sequence[Link]) -> Undo:
        """Cut directed links, on account of these nodes (of all ends, when none is named)."""
        whose = frozenset(nodes) or frozenset(end for link in links for end in link)
        group = (whose, tuple(links))
        self._groups.append(group)
        for link in links:
            self._cuts[link] += 1
            self.world.mesh.cut(*link)
        return lambda: self._restore(group)

    def _restore(self, group: Group) -> None:
        if group not in self._groups:
            return
        self._groups.remove(group)
        for link in group[1]:
            if self._cuts[link] > 0:
                self._cuts[link] -= 1
                if self._cuts[link] == 0:
                    self.world.mesh.restore(*link)

    def join(self, nodes: Sequence[str]) -> None:
        """Restore what was cut on account of these nodes; other cuts of their links stay."""
        for group in list(self._groups):
            if group[0].intersection(nodes):
                self._restore(group)

    def hold(self, links: Sequence[Link], types: Sequence[str]) -> Undo:
        """Keep messages on their way."""
        made: list[Rule] = []
        for source, target in links:
            for kind in types or (None,):
                rule = self.world.mesh.add_rule(MessageMatch(kind, source, target), "hold")
                made.append(rule)
                self._rules.append(((source, target), rule))

        def undo() -> None:
            for rule in made:
                rule.end()
                rule.release()

        return undo

    def let_go(self, links: Sequence[Link], *, deliver: bool) -> int:
        """End what is held on links (on all when none is named); returns how many messages."""
        count = 0
        kept: list[tuple[Link, Rule]] = []
        for link, rule in self._rules:
            if links and link not in links:
                kept.append((link, rule))
                continue
            rule.end()
            count += rule.release() if deliver else rule.drop_held()
        self._rules = kept
        return count

    def lossy(self, loss: float, duplication: float, delay_ms: float) -> Undo:
        """Let all links between nodes lose, repeat and delay messages, beside what they do."""
        changed = []
        for link in self.all_links():
            state = self.world.mesh.link(*link)
            before = (state.loss, state.duplication, state.slow_probability, state.slow_ms)
            changed.append((state, before))
            state.loss = max(state.loss, loss)
            state.duplication = max(state.duplication, duplication)
            if delay_ms > 0:
                state.slow_probability, state.slow_ms = 0.5, (0.0, delay_ms)

        def undo() -> None:
            settings = self.world.settings
            for state, _ in changed:
                state.loss, state.duplication = settings.loss, settings.duplication
                state.slow_probability = settings.slow_probability
                state.slow_ms = settings.slow_ms

        self._undone_late.append(undo)
        return undo

    def all_links(self) -> list[Link]:
        """Every directed link between nodes."""
        names = self.world.names
        return [(a, b) for a in names for b in names if a != b]

    # -- disks and clocks ------------------------------------------------------------------------

    def disk_stall(self, nodes: Sequence[str]) -> Undo:
        """Let no fsync complete."""
        for node in nodes:
            self._stalls[node] += 1
            self.world.nodes[node].disk.stall()

        def undo() -> None:
            for node in nodes:
                if self._stalls[node] > 0:
                    self._stalls[node] -= 1
                    if self._stalls[node] == 0:
                        self.world.nodes[node].disk.resume()

        return undo

    def disk_slow(self, nodes: Sequence[str], sync_ms: float) -> Undo:
        """Let each fsync take longer."""
        for node in nodes:
            self.world.nodes[node].disk.sync_ms = sync_ms

        def undo() -> None:
            for node in nodes:
                self.world.nodes[node].disk.sync_ms = 0.0

        self._undone_late.append(undo)
        return undo

    def disk_error(self, nodes: Sequence[str]) -> None:
        """Fail the next fsync; the node has to end over it."""
        for node in nodes:
            host = self.world.nodes[node]
            if host.state is not NodeState.DEAD:
                self.excused.add((node, host.incarnation))
                host.disk.fail(OSError(errno.EIO, "Input/output error"))

    def clock_rate(self, nodes: Sequence[str], rate: float) -> Undo:
        """Let clocks run faster or slower from now on."""
        before = {node: self._rates.setdefault(node, self._rate(node)) for node in nodes}
        for node in nodes:
            self.world.nodes[node].clock.set_rate(rate)

        def undo() -> None:
            for node, old in before.items():
                self.world.nodes[node].clock.set_rate(old)

        self._undone_late.append(undo)
        return undo

    def _rate(self, node: str) -> float:
        return self.world.nodes[node].clock.rate

    def clock_jump(self, nodes: Sequence[str], jump_ms: float) -> None:
        """Step the wall clock; the monotonic one never jumps."""
        for node in nodes:
            self.world.nodes[node].clock.step_wall(jump_ms)

    def bit_rot(
        self, nodes: Sequence[str], file: str, at: float, down_ms: float
    ) -> tuple[str, ...]:
        """Damage a file of nodes, which lose power for it, where that can be detected.

        Returns the nodes that were hit. quorum-state: its first byte, after which it is no JSON.
        log: a byte under the checksum of the first batch, with whole batches behind it.
        """
        hit = []
        for node in nodes:
            if node in self.lost:
                continue  # the same bit once more would be right again
            self.world.kill(node, "everything")
            path, position = self._place(node, file, at)
            if position is not None:
                self.world.nodes[node].disk.corrupt(path, position, 0x01)
                self.lost.add(node)
                hit.append(node)
            self.world.scheduler.call_later(down_ms, partial(self._start_once, node))
        return tuple(hit)

    def _place(self, node: str, file: str, at: float) -> tuple[str, int | None]:
        disk = self.world.nodes[node].disk
        if file == "quorum-state":
            path = f"{FOLDER}/quorum-state"
            return path, 0 if disk.exists(path) and disk.size(path) > 0 else None
        names = [name for name in disk.list_directory(FOLDER) if name.endswith(".log")]
        if not names:
            return "", None
        path = f"{FOLDER}/{names[0]}"
        content = disk.read(path)
        size = parse_header(content).size_bytes if len(content) > _HEADER_BYTES else 0
        if not size or len(content) < 2 * size:
            return path, None
        return path, _CHECKED_FROM + int(at * (size - _CHECKED_FROM - 1))

    def _start_once(self, node: str) -> None:
        """Start a node that should refuse; what it does next is judged."""
        host = self.world.nodes[node]
        if host.state is NodeState.DEAD:
            if node in self.lost:
                self.excused.add((node, host.incarnation + 1))
            self.world.start(node)

    # -- all -------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Undo everything; start every node that may be."""
        self.let_go((), deliver=True)
        for group in list(self._groups):
            self._restore(group)
        for node in self.world.names:
            self._stalls[node] = 0
            self.world.nodes[node].disk.resume()
            self.world.nodes[node].disk.fail(None)  # an error that no fsync has met yet
        late, self._undone_late = self._undone_late, []
        for undo in late:
            undo()
        for node in self.world.names:
            self.world.resume(node)
            self.start((node,))
        self.voters.repair()


_HEADER_BYTES = 61
_CHECKED_FROM = 21
"""First byte of a batch that its CRC covers: attributes (docs/storage.md, Kafka's format v2)."""


def partition_links(
    names: Sequence[str], shape: str, targets: Sequence[str], one_way: str, random: Random
) -> list[Link]:
    """Directed links that a partition of a shape cuts."""
    if shape == "halves":
        shuffled = random.sample(list(names), len(names))
        first = set(shuffled[: len(names) // 2])
        return [(a, b) for a in names for b in names if (a in first) != (b in first)]
    if shape == "bridge":
        shuffled = random.sample(list(names), len(names))
        half = (len(names) - 1) // 2
        left, right = set(shuffled[:half]), set(shuffled[half + 1 :])
        return [
            (a, b)
            for a in names
            for b in names
            if (a in left and b in right) or (a in right and b in left)
        ]
    if shape == "ring":
        ring = random.sample(list(names), len(names))
        size = len(ring)
        near = {
            (ring[i], ring[(i + step) % size])
            for i in range(size)
            for step in range(-(size // 4) - 1, size // 4 + 2)
        }
        return [(a, b) for a in names for b in names if a != b and (a, b) not in near]
    inside = set(targets)
    outward = [(a, b) for a in names for b in names if a in inside and b not in inside]
    inward = [(b, a) for a, b in outward]
    return {"out": outward, "in": inward}.get(one_way, outward + inward)


def details(**told: Any) -> dict[str, Any]:
    """Values worth telling in the journal: those that say something."""
    return {key: value for key, value in told.items() if value not in (None, "", ())}
