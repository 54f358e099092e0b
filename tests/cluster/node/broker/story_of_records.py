"""A random story of three brokers in virtual time: clients at work, faults, and what must hold.

Everything is drawn from one seed. The faults stay within what the promises below allow: a broker
loses unsynced records only while all others are in sync, `min.insync.replicas` is 2 or more, and no
leader is elected uncleanly. Then

- a record that was acknowledged with acks=all is never lost and keeps its offset;
- an idempotent producer, which repeats a batch until it is acknowledged, leaves no duplicate, and
  its records are in the order in which they were sent;
- what a consumer has read below a high watermark never changes;
- at every moment the logs of running replicas agree up to the smaller of their high watermarks;
- in the end all replicas are in sync, and their logs are the same byte for byte.
"""

import random
from dataclasses import dataclass, field
from itertools import pairwise

from cluster.backends.base import NodeState
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import decode_batch
from tests.cluster.node.broker.cluster_of_brokers import Brokers, delete_records
from tests.cluster.node.broker.story_clients import IDS, Clients, Consumer, Producer, Target
from tests.cluster.node.controller.fakes import alter, creatable, create, delete
from tests.cluster.node.controller.test_elections import PREFERRED, elect
from tests.cluster.node.controller.test_reassignment import reassign

SETTINGS = {
    "replica.lag.time.max.ms": 800,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 100,
}
TOPIC = 2
"""The type of resource."""
DATA_FILES = ("__cluster_metadata-0/", "meta.properties", "bootstrap.checkpoint")
"""What is left of a disk whose records are wiped."""


@dataclass
class Story(Clients):
    """See the module; `tell` runs it, and raises AssertionError where something does not hold."""

    seed: int
    steps: int = 25
    brokers: Brokers = field(init=False)
    lines: list[str] = field(default_factory=list)
    """What happened, for a person who looks at a failure."""

    def __post_init__(self) -> None:
        self.draw = random.Random(f"story/{self.seed}")
        self.brokers = Brokers(
            seed=self.seed,
            settings=SETTINGS,
            power_loss="everything",
            slow_probability=self.draw.choice((0.0, 0.0, 0.02)),
            slow_sync_probability=self.draw.choice((0.0, 0.2)),
        )
        self.world = self.brokers.world
        self.scheduler = self.world.scheduler
        self.acknowledged: dict[Target, dict[int, bytes]] = {}
        self.shown: dict[Target, dict[int, tuple[bytes, int]]] = {}
        """What consumers have read: value and leader epoch by offset."""
        self.has_ended = False
        self.producers = [
            Producer("idem-a0", "a", 0, -1, is_idempotent=True),
            Producer("idem-a1", "a", 1, -1, is_idempotent=True),
            Producer("all-a0", "a", 0, -1, is_idempotent=False),
            Producer("one-a0", "a", 0, 1, is_idempotent=True),
            Producer("none-a1", "a", 1, 0, is_idempotent=False),
            Producer("idem-b0", "b", 0, -1, is_idempotent=True),
            Producer("idem-d0", "d", 0, -1, is_idempotent=True),
        ]
        self.consumers = [
            Consumer(topic, index, leader_only)
            for topic, index in (("a", 0), ("a", 1), ("b", 0), ("d", 0))
            for leader_only in (True, False)
        ]

    # --- the whole ---

    def tell(self) -> None:
        self.brokers.create("a", partitions=2, min_insync_replicas=2, **self.log_settings())
        self.brokers.create("b", (1, 2), min_insync_replicas=2, **self.log_settings())
        self.brokers.create("d", (2, 3, 1), min_insync_replicas=2)
        for producer in self.producers:
            self.begin(producer)
        for consumer in self.consumers:
            self.poll(consumer)
        for _ in range(self.steps):
            self.step()
            self.brokers.run(self.draw.choice((5, 50, 300, 1_200)))
            self.check_running()
        self.heal()
        self.finish()

    def log_settings(self) -> dict[str, int]:
        """Small segments in half of the stories."""
        small = self.draw.random() < 0.5
        return {"segment_bytes": 1024 * 1024, "segment_ms": 1_500} if small else {}

    def note(self, text: str) -> None:
        self.lines.append(f"{self.scheduler.now_ms / 1000:.3f} {text}")

    # --- faults ---

    def step(self) -> None:
        faults = (
            [self.kill, self.lose_power, self.pause, self.cut] * 3
            + [self.stop, self.wipe, self.elect_preferred, self.reassign, self.make_anew] * 2
            + [self.delete_records, self.change_minimum, self.change_segments]
            + [self.mend] * 4
        )
        self.draw.choice(faults)()

    def up(self) -> list[int]:
        return [b for b in IDS if self.world.nodes[f"n{b}"].state is NodeState.RUNNING]

    def victim(self) -> int | None:
        """A broker that may fail: the quorum needs the two others."""
        up = self.up()
        return self.draw.choice(up) if len(up) == len(IDS) else None

    def later(self, act, low_ms=50, high_ms=4_000) -> None:
        self.scheduler.call_later(self.draw.uniform(low_ms, high_ms), act)

    def start(self, broker: int) -> None:
        if self.world.nodes[f"n{broker}"].state is NodeState.DEAD:
            self.note(f"start {broker}")
            self.world.start(f"n{broker}")

    def kill(self) -> None:
        if (broker := self.victim()) is not None:
            self.note(f"kill {broker}")
            self.world.kill(f"n{broker}", "written")
            self.later(lambda: self.start(broker))

    def may_lose(self, broker: int) -> bool:
        """Whether all others are in sync everywhere, in an incarnation that has registered.

        For Kafka a kill is as bad as a power loss: a broker that was killed is in no ISR before it
        has caught up again, though it has lost nothing.
        """
        state = self.brokers.state
        return all(self.is_whole(other, state) for other in IDS if other != broker)

    def is_whole(self, broker: int, state) -> bool:
        if f"n{broker}" not in self.brokers.quorum.running():
            return False
        node, registered = self.brokers.node(broker), state.brokers.get(broker)
        if node is None or node.lifecycle.broker_epoch != registered.epoch or registered.fenced:
            return False
        return all(
            broker in found.isr or broker not in found.replicas for found in partitions_of(state)
        )

    def lose_power(self) -> None:
        broker = self.victim()
        if broker is not None and self.may_lose(broker):
            keep = self.draw.choice(("any", "nothing", "torn"))
            self.note(f"power loss {broker} keeps {keep}")
            self.world.kill(f"n{broker}", keep)
            self.later(lambda: self.start(broker))

    def wipe(self) -> None:
        """Lose all records of a broker, and what says that it was stopped in order."""
        broker = self.victim()
        if broker is not None and self.may_lose(broker):
            self.note(f"wipe {broker}")
            self.world.kill(f"n{broker}", "written")
            disk = self.world.nodes[f"n{broker}"].disk
            kept = {
                path: content
                for path, content in disk.files().items()
                if path.startswith(DATA_FILES) or path == "quorum-state"
            }
            disk.replace(kept)
            self.later(lambda: self.start(broker))

    def stop(self) -> None:
        if (broker := self.victim()) is not None:
            self.note(f"stop {broker}")
            self.world.stop(f"n{broker}", lambda: self.later(lambda: self.start(broker), 10, 1_000))

    def pause(self) -> None:
        if (broker := self.victim()) is not None:
            self.note(f"pause {broker}")
            self.world.pause(f"n{broker}")
            self.later(lambda: self.world.resume(f"n{broker}"), 200, 3_000)

    def cut(self) -> None:
        source, target = self.draw.sample(IDS, 2)
        both = self.draw.random() < 0.5
        pairs = [(source, target), (target, source)] if both else [(source, target)]
        self.note(f"cut {pairs}")
        for one, other in pairs:
            self.world.mesh.cut(f"n{one}", f"n{other}")
            self.later(lambda a=one, b=other: self.world.mesh.restore(f"n{a}", f"n{b}"))

    def mend(self) -> None:
        """Restore links, and give the replicas some time."""
        self.restore_links()
        self.brokers.run(1_000)

    def restore_links(self) -> None:
        for source, target in sorted(self.world.mesh.cuts()):
            self.world.mesh.restore(source, target)

    # --- operators ---

    def ask_controller(self, request) -> None:
        leader = self.brokers.quorum.leader()
        if leader is not None and self.brokers.node(int(leader[1:])) is not None:
            self.world.mesh.request(
                self.brokers.client,
                None,
                self.world.endpoint(leader),
                request,
                5_000,
                lambda _: None,
            )

    def elect_preferred(self) -> None:
        self.ask_controller(elect(PREFERRED, ("a", 0), ("a", 1), ("b", 0), ("d", 0)))

    def reassign(self) -> None:
        replicas = tuple(self.draw.sample(IDS, 2))
        self.note(f"reassign b-0 to {replicas}")
        self.ask_controller(reassign(("b", 0, replicas)))

    def make_anew(self) -> None:
        """Delete topic d, and create it again a little later."""
        self.note("delete d")
        self.ask_controller(delete("d"))
        again = create(creatable("d", 1, 3, configs={"min.insync.replicas": "2"}))
        self.later(lambda: self.ask_controller(again), 1, 500)

    def delete_records(self) -> None:
        target = self.target("a", 0)
        leader = self.leader_of(target)
        if leader is None:
            return
        known = self.shown.get(target, {})
        offset = self.draw.choice(sorted(known)) if known else 0
        self.note(f"delete records of a-0 below {offset}")
        self.ask(leader, delete_records("a", 0, offset), lambda _: None)

    def change_minimum(self) -> None:
        value = self.draw.choice(("2", "3"))
        self.ask_controller(alter("min.insync.replicas", value, resource=(TOPIC, "a")))

    def change_segments(self) -> None:
        value = self.draw.choice(("400", "2000", "604800000"))
        self.ask_controller(alter("segment.ms", value, resource=(TOPIC, "a")))

    # --- what must hold ---

    def replicas(self, name, index):
        found = []
        for broker in self.up():
            node = self.brokers.node(broker)
            if node is not None and node.replicas is not None:
                replica = node.replicas.find_replica(name, index)
                if not isinstance(replica, ErrorCode):
                    found.append((broker, replica))
        return found

    def check_running(self) -> None:
        """Logs agree up to the smaller high watermark, and nothing died."""
        assert self.world.deaths == [], self.world.deaths
        for name, index in (("a", 0), ("a", 1), ("b", 0), ("d", 0)):
            found = self.replicas(name, index)
            for (one, left), (other, right) in pairwise(found):
                if left.key == right.key:
                    end = min(left.partition.high_watermark, right.partition.high_watermark)
                    start = max(left.log.start_offset, right.log.start_offset)
                    assert stored(left.log, start, end) == stored(right.log, start, end), (
                        f"{name}-{index} differs on {one} and {other} below {end}"
                    )

    def heal(self) -> None:
        self.note("heal")
        self.restore_links()
        for broker in IDS:
            self.world.resume(f"n{broker}")
        self.brokers.run(5_000)
        for broker in IDS:
            self.start(broker)
        if self.target("d", 0) is None:
            self.ask_controller(create(creatable("d", 1, 3)))

        def healed() -> bool:
            if self.brokers.quorum.leader() is None or len(self.up()) < len(IDS):
                return False
            if any(self.brokers.node(broker) is None for broker in IDS):
                return False
            state = self.brokers.state
            found = partitions_of(state)
            return len(found) == 4 and all(
                set(partition.isr) == set(partition.replicas)
                and partition.leader > 0
                and not partition.adding_replicas
                for partition in found
            )

        assert self.brokers.until(healed, 60_000), f"the ISR are not full: {self.isrs()}"
        self.has_ended = True
        done = self.brokers.until(lambda: all(p.is_done() for p in self.producers), 60_000)
        assert done, [p for p in self.producers if not p.is_done()]

    def isrs(self):
        state = self.brokers.state
        return [
            (p.replicas, p.isr, p.leader, p.adding_replicas, self.brokers.unfenced())
            for p in partitions_of(state)
        ]

    def finish(self) -> None:
        """Compare what is left with what was promised."""
        for name, index in (("a", 0), ("a", 1), ("b", 0), ("d", 0)):
            self.brokers.until(lambda n=name, i=index: self.is_same(n, i), 20_000)
            found = self.replicas(name, index)
            ends = [(broker, r.log.end_offset, r.partition.high_watermark) for broker, r in found]
            assert self.is_same(name, index), f"{name}-{index} ends differently: {ends}"
            self.judge(name, index, found[0][1].log)
        assert self.brokers.quorum.monitor.violations == []

    def is_same(self, name, index) -> bool:
        found = self.replicas(name, index)
        state = self.brokers.state
        partition = state.partition(state.topic_by_name(name).id, index)
        ends = {replica.log.end_offset for _, replica in found}
        marks = {replica.partition.high_watermark for _, replica in found}
        if len(found) != len(partition.replicas) or len(ends) != 1 or marks != ends:
            return False
        start = max(replica.log.start_offset for _, replica in found)
        logs = {tuple(stored(replica.log, start, min(ends))) for _, replica in found}
        return len(logs) == 1

    def judge(self, name, index, log) -> None:
        records = {}
        for _, part in log.batches_from(log.start_offset, log.end_offset):
            for record in decode_batch(part):
                records[record.offset] = record.value
        at = f"{name}-{index}"
        assert sorted(records)[-1:] in ([], [log.end_offset - 1]), f"{at} has gaps"
        target = Target(self.brokers.state.topic_by_name(name), index)
        for offset, value in sorted(self.acknowledged.get(target, {}).items()):
            if offset >= log.start_offset:
                assert records.get(offset) == value, (
                    f"{value!r} was acknowledged at {offset} of {at}, where {records.get(offset)!r}"
                )
        for offset, (value, _) in sorted(self.shown.get(target, {}).items()):
            if offset >= log.start_offset:
                assert records.get(offset) == value, f"{value!r} was read at {offset} of {at}"
        for producer in self.producers:
            if producer.is_idempotent and producer.acks == -1:
                values = [v for _, v in sorted(records.items()) if is_of(producer, v)]
                numbers = [int(value.rpartition(b"-")[2]) for value in values]
                assert numbers == sorted(set(numbers)), f"{producer.name} at {at}: {numbers}"


def partitions_of(state):
    return [state.partitions.get(key) for key in list(state.partitions.keys())]


def is_of(producer: Producer, value: bytes) -> bool:
    return value.rpartition(b"-")[0] == producer.name.encode()


def stored(log, start: int, end: int) -> list[bytes]:
    """Whole batches between two offsets."""
    return (
        [
            part
            for header, part in log.batches_from(start, end)
            if header.base_offset >= start and header.next_offset <= end
        ]
        if start < end
        else []
    )
