"""Kafka's raft and controller metrics of one node (docs/node.md).

What happens is learnt from the node's own trace, which passes through `MeteredTrace`, so the node's
logic knows nothing of metrics; what is, is read from the node on request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from cluster.node.assembly import Node
from cluster.node.controller.metadata.registrations import registered_brokers
from cluster.node.runtime.idle import IdleTime
from cluster.node.runtime.metered_trace import MeteredTrace
from cluster.node.runtime.server import TcpServer
from cluster.node.runtime.window import QUANTILES, Reservoir

_RAFT: Final = "kafka_server_raft_metrics_"
_CONTROLLER: Final = "kafka_controller_"
_NETWORK: Final = "kafka_network_"
_STATES: Final = ("Leader", "Candidate", "Prospective", "Follower", "Unattached", "Resigned")
_OBSERVER: Final = "Observer"
_NO_NODE: Final = -1


class EventQueueTimes:
    """How long the controller's events wait and take; see `controller.core.event_queue`."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.queue_ms = Reservoir()
        self.processing_ms = Reservoir()
        self._now_s = now_s

    def now_ms(self) -> float:
        """See `EventTimes`."""
        return self._now_s() * 1000.0

    def event_started(self, queue_ms: float) -> None:
        """See `EventTimes`."""
        self.queue_ms.record(queue_ms)

    def event_processed(self, processing_ms: float) -> None:
        """See `EventTimes`."""
        self.processing_ms.record(processing_ms)


class NodeMetrics:
    """A prometheus-client collector."""

    def __init__(
        self,
        node: Node,
        server: TcpServer,
        trace: MeteredTrace,
        idle: IdleTime,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._server = server
        self._trace = trace
        self._idle = idle
        self._now_s = now_s
        self._events = node.controller.time_events(EventQueueTimes(now_s))
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._raft()
        yield from self._controller()
        yield from self._network()

    def _raft(self) -> Iterator[Metric]:
        raft, trace, now = self._node.raft, self._trace, self._now_s()
        leader = raft.leader_and_epoch
        voters = raft.voters
        is_voter = raft.node_id in voters
        yield _states(trace.state if is_voter or trace.state == "Leader" else _OBSERVER)
        yield _gauge(_RAFT, "current_leader", "Id of the leader, -1: unknown", leader.leader_id)
        yield _gauge(_RAFT, "current_epoch", "Epoch of the quorum", leader.epoch)
        own_vote = trace.state in {"Candidate", "Leader"}
        vote = raft.node_id if own_vote else trace.voted_id
        yield _gauge(_RAFT, "current_vote", "Voter that got this epoch's vote, -1: none", vote)
        high_watermark = raft.high_watermark
        yield _gauge(
            _RAFT,
            "high_watermark",
            "End of what is committed, -1: unknown",
            _NO_NODE if high_watermark is None else high_watermark,
        )
        yield _gauge(_RAFT, "log_end_offset", "Offset of the next record", raft.log.end.offset)
        yield _gauge(_RAFT, "log_end_epoch", "Epoch of the last record", raft.log.end.epoch)
        yield _gauge(_RAFT, "number_of_voters", "Voters in force", len(voters))
        observers = raft.observer_count
        count = _NO_NODE if observers is None else observers
        yield _gauge(_RAFT, "number_of_observers", "Observers, -1: does not lead", count)
        unknown = sum(1 for voter in voters if voters.endpoint(voter.key.id) is None)
        yield _gauge(
            _RAFT, "number_unknown_voter_connections", "Voters without an address", unknown
        )
        for name, window in (("commit", trace.commit_ms), ("election", trace.election_ms)):
            what = f"Milliseconds of a {name}"
            yield _gauge(_RAFT, f"{name}_latency_avg", f"{what}, mean", window.mean(now))
            yield _gauge(_RAFT, f"{name}_latency_max", f"{what}, maximum", window.maximum(now))
        for name, window in (("append", trace.appended), ("fetch", trace.fetched)):
            rate = window.rate_per_s(now)
            yield _gauge(_RAFT, f"{name}_records_rate", "Records a second", rate)
        refused = trace.events["contradiction"]
        what = "Messages that contradicted what this node knows"
        yield _counter(_RAFT, "refused_contradictions", what, refused)
        idle = self._idle.ratio()
        yield _gauge(_RAFT, "poll_idle_ratio_avg", "Share of time that the loop waited", idle)

    def _controller(self) -> Iterator[Metric]:
        controller = self._node.controller
        state, provenance = controller.image.state, controller.image.provenance
        is_active = controller.is_active
        yield _gauge(
            _CONTROLLER, "active_controller_count", "1 on the active controller", int(is_active)
        )
        brokers = registered_brokers(state)
        fenced = sum(broker.fenced for broker in brokers)
        yield _gauge(_CONTROLLER, "fenced_broker_count", "Registered, fenced", fenced)
        active = len(brokers) - fenced
        yield _gauge(_CONTROLLER, "active_broker_count", "Registered, unfenced", active)
        topics, partitions = len(state.topics), len(state.partitions)
        yield _gauge(_CONTROLLER, "global_topic_count", "Topics", topics)
        yield _gauge(_CONTROLLER, "global_partition_count", "Partitions", partitions)
        offset = provenance.last_contained_offset
        yield _gauge(_CONTROLLER, "last_applied_record_offset", "Last replayed offset", offset)
        timestamp = provenance.last_contained_log_time_ms
        yield _gauge(
            _CONTROLLER, "last_applied_record_timestamp", "Milliseconds of wall time", timestamp
        )
        lag = 0 if is_active or timestamp < 0 else max(0, time.time_ns() // 10**6 - timestamp)
        yield _gauge(
            _CONTROLLER,
            "last_applied_record_lag_ms",
            "Age of the last replayed record; 0 on the active controller",
            lag,
        )
        claims = self._trace.events["claim"]
        yield _counter(_CONTROLLER, "new_active_controllers", "Claims of this node", claims)
        snapshot_id = self._node.raft.log.latest_snapshot_id
        latest = _NO_NODE if snapshot_id is None else snapshot_id.offset
        yield _gauge(_CONTROLLER, "latest_snapshot_offset", "Its end, -1: none", latest)

        events = self._events
        what = "Milliseconds that events of the controller"
        yield from _histogram("event_queue_time_ms", f"{what} wait", events.queue_ms)
        yield from _histogram(
            "event_queue_processing_time_ms", f"{what} take", events.processing_ms
        )

    def _network(self) -> Iterator[Metric]:
        server = self._server
        count = server.connection_count
        yield _gauge(_NETWORK, "connection_count", "Open connections", count)
        held = server.buffered_bytes
        yield _gauge(_NETWORK, "buffered_bytes", "Requests and responses that wait", held)
        refused = server.refused_count
        yield _counter(_NETWORK, "refused_connections", "Found no place", refused)
        evicted = server.evicted_count
        yield _counter(_NETWORK, "evicted_connections", "Made room for new ones", evicted)
        failures = server.authentication_failures
        yield _counter(_NETWORK, "failed_authentication", "TLS and SASL failures", failures)


def _states(current: str) -> Metric:
    metric = GaugeMetricFamily(_RAFT + "current_state", "1 for the state", labels=["state"])
    for state in (*_STATES, _OBSERVER):
        metric.add_metric([state.lower()], float(state == current))
    return metric


def _gauge(prefix: str, name: str, what: str, value: float) -> Metric:
    assert not math.isinf(value)
    return GaugeMetricFamily(prefix + name, what, value=value)


def _histogram(name: str, what: str, values: Reservoir) -> Iterator[Metric]:
    """Yield one of Kafka's histograms: its percentiles, count and sum, and its maximum."""
    full_name = _CONTROLLER + name
    summary = SummaryMetricFamily(full_name, what, count_value=values.count, sum_value=values.sum)
    for quantile, value in zip(QUANTILES, values.quantiles(), strict=True):
        summary.add_sample(full_name, {"quantile": f"{quantile:g}"}, value)
    yield summary
    yield _gauge(_CONTROLLER, f"{name}_max", f"{what}, maximum", values.maximum())


def _counter(prefix: str, name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(prefix + name, what, value=value)
