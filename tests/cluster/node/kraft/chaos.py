"""Random schedules of faults against a simulated quorum, and the liveness that must follow."""

from __future__ import annotations

import contextlib
import random

from cluster.node.kraft.quorum.leader_state import Leader
from cluster.node.kraft.types import BufferFullError, NotLeaderError
from tests.cluster.node.kraft.monitor import SafetyMonitor
from tests.cluster.node.kraft.world import World

LIVENESS_MS = 20_000


class Chaos:
    """One seeded run: a world, its monitor, a schedule."""

    def __init__(self, seed, count=3, **settings):
        self.random = random.Random(f"{seed}/chaos")
        settings = {
            "election_timeout_ms": 300,
            "fetch_timeout_ms": 600,
            "request_timeout_ms": 500,
            "max_fetch_wait_ms": 100,
            "append_linger_ms": self.random.choice([0, 5, 25]),
            "fetch_max_bytes": self.random.choice([1, 300, 1 << 20]),
            **settings,
        }
        segment_bytes = self.random.choice([300, 4096, 1 << 20])
        self.world = World(count, seed, segment_bytes=segment_bytes, **settings)
        self.monitor = SafetyMonitor(self.world)
        self.sent = 0
        self.reads = 0
        self.reads_confirmed = 0
        self.shutting_down = []
        self.actions = [
            (10, self.append_burst),
            (2, self.crash),
            (4, self.restart),
            (2, self.isolate),
            (1, self.cut_one_way),
            (2, self.hold),
            (2, self.release),
            (3, self.heal),
            (1, self.lossy),
            (1, self.slow_disk),
            (1, self.stall_disk),
            (3, self.free_disks),
            (1, self.pause),
            (3, self.resume),
            (1, self.resign),
            (1, self.shut_down),
        ]

    def run(self, steps=60):
        self.world.start()
        weights = [weight for weight, _ in self.actions]
        for _ in range(steps):
            [(_, action)] = self.random.choices(self.actions, weights)
            action()
            self.read()
            self.monitor.run_for(self.random.choice([1, 3, 10, 30, 100, 400, 900]))
        self.recover()

    # -- what happens ----------------------------------------------------------------------------

    def any_node(self, nodes):
        nodes = list(nodes)
        return self.random.choice(nodes) if nodes else None

    def append_burst(self):
        for node in self.world.running:
            if isinstance(node.state, Leader) and not node.paused:
                for _ in range(self.random.randrange(1, 6)):
                    self.append(node, self.random.randrange(1, 4))

    def append(self, node, count=1):
        self.sent += count
        values = [f"v{self.sent}.{i}" for i in range(count)]
        with contextlib.suppress(NotLeaderError, BufferFullError):
            self.world.append(node, *values)

    def crash(self):
        node = self.any_node(self.world.running)
        if self.random.random() < 0.5 and self.world.leader() is not None:
            node = self.world.leader()
        if node is not None:
            self.kill(node, self.random.choice(["any", "nothing", "everything"]))

    def kill(self, node, keep):
        self.monitor.crashed(node)
        node.crash(keep)

    def restart(self):
        node = self.any_node(n for n in self.world.nodes.values() if n.client is None)
        if node is not None:
            self.start(node)

    def start(self, node):
        node.start()
        self.monitor.started(node)

    def isolate(self):
        leader = self.world.leader()
        victim = self.random.choice(self.world.ids)
        if leader is not None and self.random.random() < 0.6:
            victim = leader.node_id
        self.world.network.isolate(victim, self.world.ids)

    def link(self):
        return tuple(self.random.sample(self.world.ids, 2))

    def cut_one_way(self):
        self.world.network.cut.add(self.link())

    def hold(self):
        self.world.network.held_links.add(self.link())

    def release(self):
        """Let held messages go, some, late and in any order; the rest is lost."""
        network = self.world.network
        network.held_links.clear()
        self.random.shuffle(network.held)
        network.release(lambda _: self.random.random() < 0.7)
        network.held.clear()

    def heal(self):
        self.world.network.heal()
        self.world.network.loss = self.world.network.duplication = 0.0

    def lossy(self):
        self.world.network.loss = self.random.choice([0.05, 0.3])
        self.world.network.duplication = self.random.choice([0.0, 0.3])

    def slow_disk(self):
        self.any_node(self.world.nodes.values()).disk.sync_ms = self.random.choice([20, 200])

    def stall_disk(self):
        self.any_node(self.world.nodes.values()).disk.stall()

    def free_disks(self):
        for node in self.world.nodes.values():
            node.disk.sync_ms = 0.5
            node.disk.resume()

    def pause(self):
        node = self.any_node(self.world.running)
        if node is not None:
            node.pause()

    def resume(self):
        for node in self.world.running:
            if node.paused:
                node.resume()

    def resign(self):
        for node in self.world.leaders():
            node.client.resign(node.state.epoch)

    def shut_down(self):
        node = self.any_node(self.world.running)
        if node is not None:
            client = node.client
            self.shutting_down.append(client)

            def stopped():
                if node.client is client:
                    self.kill(node, "any")

            client.shutdown(300, stopped)

    def read(self):
        """A linearizable read sees whatever was committed anywhere before it began."""
        for node in self.world.leaders():
            if node.paused or node.state.high_watermark is None:
                continue
            committed = self.monitor.leader_high_watermark
            epoch, latest = node.state.epoch, max(self.monitor.leader_of)
            self.reads += 1

            def confirmed(answer, node=node, epoch=epoch, latest=latest, committed=committed):
                if answer:
                    self.reads_confirmed += 1
                    assert epoch == latest, f"epoch {epoch} was confirmed, but {latest} had begun"
                    assert node.listener.next_offset >= committed, "a stale read"

            node.client.confirm_leadership(confirmed)

    # -- what must follow ------------------------------------------------------------------------

    def recover(self):
        """Heal everything: the quorum elects, commits, and all nodes hold the same again."""
        self.heal()
        self.release()
        self.free_disks()
        self.resume()
        for node in self.world.nodes.values():
            if node.client in self.shutting_down:
                self.kill(node, "any")
            if node.client is None:
                self.start(node)
        written = {}

        def all_hold_a_new_write():
            leader = self.world.leader()
            if leader is None or leader.state.high_watermark is None:
                return False
            if leader.state.epoch not in written:
                # An earlier one may be lost with its leader: its fate is open, write anew.
                self.append(leader)
                written[leader.state.epoch] = f"v{self.sent}.0".encode()
            return all(
                node.listener.values
                and node.listener.values[-1][1] == written[leader.state.epoch]
                and node.log.high_watermark == leader.log.high_watermark
                for node in self.world.nodes.values()
            )

        assert self.monitor.run_until(all_hold_a_new_write, LIVENESS_MS), "not live after healing"
        values = [node.listener.values for node in self.world.nodes.values()]
        committed = [(i, v) for i, (_, v) in enumerate(self.monitor.committed) if v is not None]
        assert all(value == committed for value in values)
