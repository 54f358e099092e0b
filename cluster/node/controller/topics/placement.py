"""Where the replicas of new partitions go (StripedReplicaPlacer).

Racks are a ring, and so are the brokers of each rack, the unfenced and the fenced ones apart. The
first rack with an unfenced broker gives the leader; all racks in turn, that one left out in the
first round, give the followers, unfenced brokers first, then fenced ones. For the next partition
every ring is turned by one. So

- leaders go round the racks, and within a rack round its brokers;
- no rack holds two replicas of a partition before every rack has one, unless a rack is exhausted;
- a fenced broker is taken only when its rack has no other left, and never as the first replica.

Once every unfenced broker could have led, all rings are shuffled, so that the partitions of a dead
broker do not all move to the same neighbour. A broker without a rack is in the rack of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.node.ports import Random
from cluster.values import valueclass

_NO_BROKER = -1


@valueclass
class UsableBroker:
    """A broker that may get replicas."""

    id: int
    rack: str | None = None
    fenced: bool = False


class _Ring:
    """Brokers of one rack. What is asked within one epoch goes round them once."""

    def __init__(self, random: Random, brokers: list[int]) -> None:
        self._brokers = sorted(brokers)
        self._offset = random.randrange(0, len(brokers)) if brokers else 0
        self._epoch = 0
        self._index = 0

    def next(self, epoch: int) -> int:
        """Return the next broker, -1 when the ring is exhausted in this epoch."""
        size = len(self._brokers)
        if not size:
            return _NO_BROKER
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % size
        if self._index >= size:
            return _NO_BROKER
        self._index += 1
        return self._brokers[(self._index - 1 + self._offset) % size]

    def shuffle(self, random: Random) -> None:
        """Put the brokers in another order."""
        _shuffle(random, self._brokers)


class _Rack:
    def __init__(self, random: Random, brokers: list[UsableBroker]) -> None:
        self.fenced = _Ring(random, [broker.id for broker in brokers if broker.fenced])
        self.unfenced = _Ring(random, [broker.id for broker in brokers if not broker.fenced])

    def next(self, epoch: int) -> int:
        """Return the next broker, fenced if there is no other, -1 if there is none."""
        found = self.unfenced.next(epoch)
        return found if found >= 0 else self.fenced.next(epoch)


class _Racks:
    """All racks, and where the next partition begins."""

    def __init__(self, random: Random, brokers: Sequence[UsableBroker]) -> None:
        self._random = random
        self._unfenced = sum(not broker.fenced for broker in brokers)
        by_name: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack, []).append(broker)
        names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(random, by_name[name]) for name in names]
        self._offset = random.randrange(0, len(names)) if len(names) > 1 else 0
        self._epoch = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of one partition."""
        if self._epoch == self._unfenced > 1:
            self._shuffle()
            self._epoch = 0
        racks = self._racks
        self._offset %= len(racks)
        first = self._offset
        while (leader := racks[first].unfenced.next(self._epoch)) < 0:
            first = (first + 1) % len(racks)
        replicas = [leader]
        skipped: int | None = first  # the leader's rack, in the first round
        rack = self._offset
        while len(replicas) < replication_factor:
            if rack == skipped:
                skipped = None
            elif (found := racks[rack].next(self._epoch)) >= 0:
                replicas.append(found)
            rack = (rack + 1) % len(racks)
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _shuffle(self) -> None:
        _shuffle(self._random, self._racks)
        for rack in self._racks:
            rack.fenced.shuffle(self._random)
            rack.unfenced.shuffle(self._random)


def _shuffle(random: Random, items: list[Any]) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(0, last + 1)
        items[last], items[other] = items[other], items[last]


def place_replicas(
    random: Random, brokers: Sequence[UsableBroker], partition_count: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, leader first.

    `brokers` are distinct, one at least is not fenced, and
    1 <= replication_factor <= len(brokers).
    """
    assert 1 <= replication_factor <= len(brokers)
    assert not all(broker.fenced for broker in brokers), "nobody can lead"
    racks = _Racks(random, brokers)
    return [racks.place(replication_factor) for _ in range(partition_count)]
