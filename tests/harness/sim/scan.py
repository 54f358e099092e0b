"""A second, slow implementation of the monitor's properties, which reads everything.

`scan` reads every node's log through its own code and every disk as a power loss would leave it,
and compares all nodes with each other. It reports what the monitor should have reported, and
whether the monitor's copies equal the nodes' state. Tests run it beside the monitor.
"""

from itertools import combinations

from checkers.invariants.sight import Batch
from checkers.invariants.watcher import Watcher
from cluster.backends.sim.process import read_from
from cluster.backends.sim.world import SimNode, SimWorld
from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.log.batch.records import CorruptBatchError, iter_batches
from cluster.node.log.metadata.snapshot import SUFFIX, parse_snapshot_name
from cluster.node.log.storage.segment import METADATA_DIRECTORY, segment_base_offset


def scan(world: SimWorld, monitor: Watcher) -> list[str]:
    """Return one line for each error, of the world or of the monitor."""
    wrong: list[str] = []
    logs: dict[str, list[Batch]] = {}
    committed: dict[str, int] = {}
    starts: dict[str, int] = {}
    leaders: dict[int, str] = {}
    for name, host in world.nodes.items():
        durable = durable_batches(host)
        process = host.process
        if process is None or not process.alive or process.node is None:
            logs[name] = durable
        else:
            raft = process.node.raft
            logs[name] = read_from(raft.log, raft.log.start_offset)
            committed[name] = raft.log.high_watermark
            starts[name] = raft.log.start_offset
            wrong += _compare_shadow(name, logs[name], starts[name], monitor)
            state = raft.state
            if isinstance(state, Leader):
                other = leaders.setdefault(state.epoch, name)
                if other != name:
                    wrong.append(f"{other} and {name} lead epoch {state.epoch}")
        held = monitor.quorum.durable_end(name)
        if max(durable[-1][1] if durable else 0, durable_snapshot_offset(host)) < held:
            wrong.append(f"{name}: the disk holds less than {held}, which was fsynced")
    wrong += _compare_committed(logs, committed, starts, monitor)
    return wrong


def durable_batches(host: SimNode) -> list[Batch]:
    """Batches that would be left of a node's log if it lost power now and kept nothing else."""
    found: list[Batch] = []
    names = host.disk.list_directory(METADATA_DIRECTORY)
    for name in (one for one in names if segment_base_offset(one) is not None):
        data = host.disk.durable(f"{METADATA_DIRECTORY}/{name}")
        if data is None:
            break
        try:
            for header, _ in iter_batches(data):
                epoch, crc = header.partition_leader_epoch, header.crc
                found.append((header.base_offset, header.next_offset, epoch, crc))
        except CorruptBatchError:
            break  # what a write in progress left at the end
    return found


def durable_snapshot_offset(host: SimNode) -> int:
    """Offset of the latest snapshot that would be left, 0 without one."""
    offset = 0
    for name in host.disk.list_directory(METADATA_DIRECTORY):
        parsed = parse_snapshot_name(name)
        if parsed is not None and parsed[1] == SUFFIX:
            if host.disk.durable(f"{METADATA_DIRECTORY}/{name}") is not None:
                offset = max(offset, parsed[0].offset)
    return offset


def _compare_shadow(name: str, log: list[Batch], start_offset: int, monitor: Watcher) -> list[str]:
    shadow = monitor.quorum.logs[name]
    if name in monitor.quorum.stale or _from(shadow.batches, start_offset) == log:
        return []
    return [f"{name}: the monitor's copy of the log is not the log"]


def _compare_committed(
    logs: dict[str, list[Batch]],
    committed: dict[str, int],
    starts: dict[str, int],
    monitor: Watcher,
) -> list[str]:
    """NoLogDivergence: any two nodes agree below the lower of their high watermarks."""
    wrong = []
    for one, other in combinations(sorted(committed), 2):
        end = min(committed[one], committed[other])
        start = max(starts[one], starts[other])
        if _from(_below(logs[one], end), start) != _from(_below(logs[other], end), start):
            wrong.append(f"{one} and {other} differ below {end}, which both call committed")
    for name, end in committed.items():
        known = _from(_below(monitor.quorum.committed, end), starts[name])
        if _below(logs[name], end) != known:
            wrong.append(f"{name} and the monitor differ on what is committed below {end}")
    return wrong


def _below(batches: list[Batch], end_offset: int) -> list[Batch]:
    return [batch for batch in batches if batch[0] < end_offset]


def _from(batches: list[Batch], start_offset: int) -> list[Batch]:
    return [batch for batch in batches if batch[0] >= start_offset]
