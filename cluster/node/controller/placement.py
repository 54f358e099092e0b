"""Where the replicas of a new partition go (StripedReplicaPlacer, without racks).

Fenced brokers are taken only when those alive are too few, and never first.

Leaders go round the brokers from a random start. Followers follow their leader in the ring at a
distance that grows by one with every round, so that the partitions of a dead broker do not all
move to the same neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.node.ports import Random


def place_replicas(
    random: Random,
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    fenced: Sequence[int] = (),
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, leader first.

    `brokers` and `fenced` are distinct; brokers is not empty, and
    1 <= replication_factor <= len(brokers) + len(fenced).
    """
    size = len(brokers)
    assert 1 <= replication_factor <= size + len(fenced)
    alive = _place(random, brokers, partition_count, min(replication_factor, size))
    missing = replication_factor - size
    if missing <= 0:
        return alive
    rest = _place(random, fenced, partition_count, missing)
    return [first + last for first, last in zip(alive, rest, strict=True)]


def _place(
    random: Random, brokers: Sequence[int], partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    size = len(brokers)
    start = random.randrange(0, size)
    placements = []
    for index in range(partition_count):
        leader = (start + index) % size
        shift = index // size
        followers = [
            (leader + 1 + (shift + step) % (size - 1)) % size
            for step in range(replication_factor - 1)
        ]
        placements.append(tuple(brokers[position] for position in (leader, *followers)))
    return placements
