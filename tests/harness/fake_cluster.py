"""A quorum that is only a model: no log, no election protocol, no bytes; runs in virtual time.

It is correct by construction: one shared state, changed only through a leader that reaches a
majority. `stale_reads` makes it answer as a leader does that never confirms its leadership, and
`crash_at_s` lets a node die unexpectedly, so that tests can check the alarm.
"""

import asyncio
import uuid
from types import SimpleNamespace

from cluster.backends.abilities import Abilities
from cluster.backends.base import (
    BackendError,
    Death,
    LinkMeasure,
    NodeState,
    Probe,
    ProcessIdentity,
)
from cluster.node.errors import ErrorCode
from cluster.node.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import messages as m

LATENCY_S = 0.003
ELECTION_S = 0.6


class FakeCluster:
    name = "fake"
    run_id = "fake"

    def __init__(
        self, node_count=3, *, stale_reads=False, crash_at_s=None, fail_up=False, needs=()
    ):
        self.nodes = tuple(f"n{number}" for number in range(1, node_count + 1))
        self.states = dict.fromkeys(self.nodes, NodeState.DEAD)
        self.incarnations = dict.fromkeys(self.nodes, -1)
        self.cut = set()
        self.leader, self.epoch = None, 0
        self.elected_at_s = 0.0
        self.configs, self.topics, self.version = {}, {}, 0
        self.beliefs = {}
        """What a deposed leader still believes: node -> configs as of its fall."""
        self.deaths = []
        self.stale_reads = stale_reads
        self.crash_at_s = crash_at_s
        self.fail_up = fail_up
        self.downs = 0

    # -- Backend ---------------------------------------------------------------------------------
    async def probe(self, ability):
        return Probe(possible=True)

    async def up(self):
        if self.fail_up:
            raise BackendError("port 9092 is taken")
        for node in self.nodes:
            await self.start(node)
        if self.crash_at_s is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.crash_at_s, self._crash, self.nodes[-1])

    def _crash(self, node):
        self.states[node] = NodeState.DEAD
        self.deaths.append(Death(node, self.incarnations[node], -6, ("an invariant broke",)))
        self._settle()

    async def wait_until_lost(self):
        return await asyncio.get_running_loop().create_future()

    async def down(self):
        self.downs += 1
        self.cut.clear()
        self.states = dict.fromkeys(self.nodes, NodeState.DEAD)

    async def start(self, node):
        assert self.states[node] is NodeState.DEAD
        await asyncio.sleep(0.1)
        self.states[node] = NodeState.RUNNING
        self.incarnations[node] += 1
        self._settle()

    async def stop(self, node):
        await self.kill(node)

    async def kill(self, node):
        self.states[node] = NodeState.DEAD
        self.beliefs.pop(node, None)
        self._settle()

    async def pause(self, node):
        self.states[node] = NodeState.PAUSED
        self._settle()

    async def resume(self, node):
        self.states[node] = NodeState.RUNNING
        self._settle()

    async def state(self, node):
        return self.states[node]

    async def process(self, node):
        if self.states[node] is NodeState.DEAD:
            return None
        return ProcessIdentity(int(node[1:]), str(self.incarnations[node]))

    def incarnation(self, node):
        return self.incarnations[node]

    def unexpected_deaths(self):
        return tuple(self.deaths)

    async def cut_links(self, links):
        self.cut |= set(links)
        self._settle()

    async def restore_links(self, links):
        self.cut -= set(links)
        self._settle()

    def abilities(self) -> Abilities:
        return Abilities()

    def links_cut(self):
        return frozenset(self.cut)

    async def measure_link(self, link, timeout_s=0.5):
        works = link not in self.cut
        await asyncio.sleep(0 if works else timeout_s)
        return LinkMeasure(works, works, None if works else 0)

    def endpoint(self, node, listener="CONTROLLER"):
        return Endpoint(int(node[1:]), listener, 1)

    async def connect(self, endpoint):
        raise ConnectionRefusedError

    def client_network(self):
        return FakeNetwork(self)

    # -- the quorum ------------------------------------------------------------------------------
    def leads(self, node):
        now_s = asyncio.get_running_loop().time()
        return node == self.leader and self._has_majority(node) and now_s >= self.elected_at_s

    def _has_majority(self, node):
        if self.states[node] is not NodeState.RUNNING:
            return False
        reached = sum(
            self.states[peer] is NodeState.RUNNING
            and (node, peer) not in self.cut
            and (peer, node) not in self.cut
            for peer in self.nodes
            if peer != node
        )
        return 1 + reached > len(self.nodes) // 2

    def _settle(self):
        """Elect another leader when the current one cannot lead."""
        self.beliefs = {
            node: belief for node, belief in self.beliefs.items() if not self._has_majority(node)
        }
        if self.leader is not None and self._has_majority(self.leader):
            return
        if self.leader is not None and self.states[self.leader] is not NodeState.DEAD:
            self.beliefs.setdefault(self.leader, dict(self.configs))
        able = [node for node in self.nodes if self._has_majority(node)]
        if able:
            self.leader, self.epoch = able[0], self.epoch + 1
            self.elected_at_s = asyncio.get_running_loop().time() + ELECTION_S


class FakeNetwork:
    def __init__(self, cluster):
        self.cluster = cluster

    def close(self):
        pass

    def request(self, destination, message, timeout_ms, on_reply):
        loop = asyncio.get_running_loop()
        node = f"n{destination.node_id}"
        state = self.cluster.states[node]
        if state is NodeState.DEAD:
            loop.call_later(LATENCY_S, on_reply, Failure.NOT_SENT)
        elif state is NodeState.PAUSED:
            loop.call_later(timeout_ms / 1000, on_reply, Failure.TIMED_OUT)
        else:
            loop.call_later(LATENCY_S, self._answer, node, message, timeout_ms, on_reply)

    def _answer(self, node, message, timeout_ms, on_reply):
        loop = asyncio.get_running_loop()
        reply = self._reply(node, message)
        if reply is None:
            loop.call_later(timeout_ms / 1000, on_reply, Failure.TIMED_OUT)
        else:
            loop.call_later(LATENCY_S, on_reply, reply)

    def _reply(self, node, message):
        c = self.cluster
        leads = c.leads(node)
        refusal = ErrorCode.none if leads else ErrorCode.not_controller
        if isinstance(message, DescribeQuorumRequest):
            leader = -1 if c.leader is None or not c.leads(c.leader) else int(c.leader[1:])
            error = ErrorCode.none if leads else ErrorCode.not_leader_or_follower
            return DescribeQuorumResponse(error, leader, c.epoch, c.version)
        if isinstance(message, m.IncrementalAlterConfigsRequest):
            if leads:
                c.version += 1
                for resource in message.resources:
                    for config in resource.configs:
                        c.configs[config.name] = config.value
            elif node in c.beliefs:
                return None
            result = SimpleNamespace(error_code=refusal, resource_type=4, resource_name="")
            return SimpleNamespace(responses=(result,))
        if isinstance(message, m.DescribeConfigsRequest):
            return self._configs(node, message, refusal)
        if isinstance(message, m.CreateTopicsRequest):
            return SimpleNamespace(topics=(self._create(message.topics[0], refusal),))
        if isinstance(message, m.DeleteTopicsRequest):
            return SimpleNamespace(responses=(self._delete(message.topics[0], refusal),))
        assert isinstance(message, m.MetadataRequest), message
        names = sorted(c.topics) if message.topics is None else [t.name for t in message.topics]
        return SimpleNamespace(
            error_code=ErrorCode.none,
            controller_id=int(node[1:]) if leads else -1,
            topics=tuple(self._topic(name) for name in names),
        )

    def _configs(self, node, message, refusal):
        c = self.cluster
        configs = c.configs
        if message.resources[0].configuration_keys is None:
            refusal = ErrorCode.none  # a broker's image
        elif c.stale_reads and node in c.beliefs:
            configs, refusal = c.beliefs[node], ErrorCode.none
        results = []
        for resource in message.resources:
            mine = configs if resource.resource_type == 4 else {}
            results.append(
                SimpleNamespace(
                    error_code=refusal,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=tuple(
                        SimpleNamespace(name=n, value=v, config_source=3) for n, v in mine.items()
                    ),
                )
            )
        return SimpleNamespace(results=tuple(results))

    def _create(self, topic, refusal):
        c = self.cluster
        if refusal is ErrorCode.none and topic.name in c.topics:
            refusal = ErrorCode.topic_already_exists
        if refusal is ErrorCode.none:
            c.version += 1
            c.topics[topic.name] = (uuid.UUID(int=c.version), topic.num_partitions)
        topic_id = c.topics.get(topic.name, (None, 0))[0]
        return SimpleNamespace(error_code=refusal, name=topic.name, topic_id=topic_id)

    def _delete(self, topic, refusal):
        c, name = self.cluster, topic.name
        if topic.topic_id is not None:
            name = next((n for n, (known, _) in c.topics.items() if known == topic.topic_id), None)
        if refusal is ErrorCode.none and name not in c.topics:
            by_id = topic.topic_id is not None
            refusal = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        topic_id = None
        if refusal is ErrorCode.none:
            c.version += 1
            topic_id = c.topics.pop(name)[0]
        return SimpleNamespace(error_code=refusal, name=name, topic_id=topic_id)

    def _topic(self, name):
        found = self.cluster.topics.get(name)
        error = ErrorCode.none if found else ErrorCode.unknown_topic_or_partition
        topic_id, partitions = found or (None, 0)
        return SimpleNamespace(
            error_code=error, name=name, topic_id=topic_id, partitions=(None,) * partitions
        )
