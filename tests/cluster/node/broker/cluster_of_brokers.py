"""Three combined nodes in virtual time with topics, and a client of their data."""

import datetime as dt

from kio.static.primitive import i32Timedelta

from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.errors import ErrorCode
from cluster.node.log.batch.records import decode_batch, split_batches
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import data_messages as d
from cluster.node.protocol import messages as m
from tests.cluster.node.controller.fakes import creatable, create, delete
from tests.cluster.node.log.data_helpers import batch
from tests.harness.sim.quorums import Quorum

SETTINGS = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 200,
    "controller.quorum.election.timeout.ms": 200,
    "controller.quorum.fetch.timeout.ms": 200,
}
TWO_DIRECTORIES = {"kraftprobe.log.dirs": 2}
CLIENT_PORT = 9092


def values_in(data: bytes) -> list[bytes]:
    """Decode the values of all records."""
    return [record.value for _, part in split_batches(data) for record in decode_batch(part)]


def delete_records(name, index, offset):
    """Make a request to delete what lies below an offset."""
    row = d.DeleteRecordsPartition(partition_index=m.i32(index), offset=m.i64(offset))
    return d.DeleteRecordsRequest(
        topics=(d.DeleteRecordsTopic(name=m.TopicName(name), partitions=(row,)),),
        timeout=i32Timedelta.parse(dt.timedelta(seconds=5)),
    )


def move_replicas(path, *partitions):
    """Make a request to move replicas, each a topic and an index, to a log directory."""
    topics = tuple(
        d.AlterReplicaLogDirTopic(name=name, partitions=(index,)) for name, index in partitions
    )
    return d.AlterReplicaLogDirsRequest(dirs=(d.AlterReplicaLogDir(path=path, topics=topics),))


def list_offsets(name, index, timestamp):
    row = d.ListOffsetsPartition(
        partition_index=m.i32(index), current_leader_epoch=m.i32(-1), timestamp=m.i64(timestamp)
    )
    return d.ListOffsetsRequest(
        replica_id=m.BrokerId(d.CONSUMER),
        isolation_level=m.i8(0),
        topics=(d.ListOffsetsTopic(name=m.TopicName(name), partitions=(row,)),),
        timeout=i32Timedelta.parse(dt.timedelta(0)),
    )


class Brokers:
    """See the module. Brokers are numbers, as Kafka has them."""

    def __init__(self, nodes=3, seed=1, settings=None, **sim):
        self.quorum = Quorum(nodes, seed, run_node_settings={**SETTINGS, **(settings or {})}, **sim)
        self.world = self.quorum.world
        self.client = self.world.mesh.new_client()
        self.quorum.elect()
        assert self.until(lambda: self.unfenced() == set(range(1, nodes + 1)))

    def until(self, condition, timeout_ms=20_000):
        return self.quorum.scheduler.run_until(condition, timeout_ms)

    def run(self, ms):
        self.quorum.run(ms)

    def node(self, broker):
        return self.quorum.node(f"n{broker}")

    @property
    def state(self):
        return self.quorum.node(self.quorum.elect()).controller.image.state

    def unfenced(self):
        state = self.state
        return {broker.id for broker in registered_brokers(state) if not broker.fenced}

    def create(self, name="t", replicas=(1, 2, 3), partitions=1, **configs):
        """Create a topic; its preferred leader is the first replica."""
        assignment = tuple(
            m.CreatableReplicaAssignment(partition_index=m.i32(index), broker_ids=replicas)
            for index in range(partitions)
        )
        topic = creatable(
            name,
            -1,
            -1,
            assignment,
            configs={key.replace("_", "."): str(value) for key, value in configs.items()},
        )
        replies = []
        leader = self.quorum.elect()
        self.quorum.node(leader).handle("CONTROLLER", create(topic), replies.append)
        assert self.until(lambda: replies)
        assert replies[0].topics[0].error_code is ErrorCode.none, replies[0]
        assert self.until(
            lambda: all(self.replica(broker, name) is not None for broker in replicas)
        )

    def delete(self, name="t"):
        """Delete a topic; its replicas go a moment later."""
        replies = []
        self.quorum.node(self.quorum.elect()).handle("CONTROLLER", delete(name), replies.append)
        assert self.until(lambda: replies)

    def replica(self, broker, name="t", index=0):
        found = self.node(broker).replicas.find_replica(name, index)
        return None if isinstance(found, ErrorCode) else found

    def partition(self, name="t", index=0):
        state = self.state
        return state.partition(state.topic_by_name(name).id, index)

    def ask(self, broker, message, timeout_ms=30_000):
        """Send a request to a broker; the list that gets its reply."""
        replies = []
        endpoint = Endpoint(broker, f"n{broker}", CLIENT_PORT)
        self.world.mesh.request(self.client, None, endpoint, message, timeout_ms, replies.append)
        return replies

    def answer(self, broker, message, timeout_ms=30_000):
        replies = self.ask(broker, message, timeout_ms)
        assert self.until(lambda: replies, timeout_ms + 1_000)
        assert not isinstance(replies[0], Failure), replies[0]
        return replies[0]

    def send(self, broker, *values, name="t", index=0, acks=-1, timeout_ms=5_000, producer=None):
        """Produce a batch; the list that gets its reply."""
        now_ms = self.node(broker).replicas.clock.wall_ms()
        sent = batch(*values, timestamp_ms=now_ms, producer=producer or (-1, -1, -1))
        return self.ask(
            broker, d.ProduceRequest(acks, timeout_ms, (d.ProducePartition(name, index, sent),))
        )

    def produce(self, broker, *values, **options):
        """Produce a batch and return the result of its partition."""
        replies = self.send(broker, *values, **options)
        assert self.until(lambda: replies)
        assert not isinstance(replies[0], Failure), replies[0]
        return replies[0].partitions[0]

    def fetch(self, broker, offset=0, name="t", index=0, max_wait_ms=0, epoch=-1):
        """Fetch as a consumer, and return the result of the partition."""
        request = d.FetchRequest(
            replica_id=d.CONSUMER,
            replica_epoch=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            partitions=(d.FetchPartition(name, index, offset, 1 << 20, epoch),),
            session_epoch=d.FINAL_SESSION_EPOCH,
        )
        return self.answer(broker, request).partitions[0]

    def values(self, broker, **options):
        """Read all that a consumer is shown from the log start on."""
        return values_in(self.fetch(broker, **options).records)

    def offset(self, broker, timestamp, name="t", index=0):
        request = list_offsets(name, index, timestamp)
        return self.answer(broker, request).topics[0].partitions[0]

    def delete_records(self, broker, offset, name="t", index=0):
        return self.answer(broker, delete_records(name, index, offset)).topics[0].partitions[0]

    def restart_in_order(self, broker):
        """SIGTERM, and a new start when it has ended."""
        stopped = []
        self.world.stop(f"n{broker}", lambda: stopped.append(True))
        assert self.until(lambda: stopped)
        self.world.start(f"n{broker}")
        assert self.until(lambda: self.node(broker) is not None)
