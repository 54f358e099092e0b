"""Metrics, from the trace and the node to the page that a scraper reads."""

import asyncio
import contextlib
import math
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster.node.controller.core.event_queue import EventQueue
from cluster.node.runtime.idle import IdleTime
from cluster.node.runtime.metered_trace import MeteredTrace
from cluster.node.runtime.metrics import EventQueueTimes
from cluster.node.runtime.metrics_endpoint import (
    MAX_CONNECTIONS,
    MAX_REQUEST_BYTES,
    MetricsEndpoint,
)
from cluster.node.runtime.trace import no_trace
from cluster.node.runtime.window import QUANTILES, RESERVOIR_SIZE, Reservoir, Window
from tests.cluster.client.nodes import Nodes, free_ports
from tests.cluster.node.runtime.test_server import run, until
from tests.play import play


class Now:
    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


def test_a_window_forgets_what_is_two_samples_old():
    window = Window(0.0)
    window.record(2.0, 1.0)
    window.record(4.0, 29.0)
    assert (window.mean(31.0), window.maximum(31.0)) == (3.0, 4.0)
    window.record(9.0, 31.0)
    assert window.mean(59.0) == 5.0
    assert window.mean(61.0) == 9.0
    assert math.isnan(window.mean(200.0))
    assert math.isnan(window.maximum(200.0))


def test_a_rate_is_the_sum_over_the_window():
    window = Window(0.0)
    window.record(60.0, 10.0)
    assert window.rate_per_s(10.0) == 2.0
    assert window.rate_per_s(40.0) == 1.5
    assert window.rate_per_s(300.0) == 0.0


def test_elections_appends_and_commits_are_learnt_from_the_trace():
    passed = []
    now = Now()
    trace = MeteredTrace(lambda event, **fields: passed.append((event, fields)), now)
    trace("state", state="Candidate", epoch=1, leader_id=-1, voted_id=2)
    now.s += 0.1
    trace("state", state="Candidate", epoch=2, leader_id=-1, voted_id=2)
    now.s += 0.2
    trace("state", state="Leader", epoch=2, leader_id=2, voted_id=2)
    trace("append", epoch=2, base_offset=10, last_offset=39, role="leader")
    trace("append", epoch=2, base_offset=0, last_offset=2, role="follower")
    trace("commit", base_offset=10, last_offset=39, latency_ms=7.0)
    assert trace.state == "Leader"
    assert trace.voted_id == 2
    assert trace.election_ms.maximum(now.s) == pytest.approx(300.0)
    assert trace.appended.rate_per_s(now.s) == 1.0
    assert trace.fetched.rate_per_s(now.s) == 0.1
    assert trace.commit_ms.mean(now.s) == 7.0
    assert len(passed) == 6


def test_a_follower_that_was_no_candidate_had_no_election():
    trace = MeteredTrace(no_trace, Now())
    trace("state", state="Follower", epoch=2, leader_id=1, voted_id=-1)
    assert math.isnan(trace.election_ms.maximum(100.0))


def test_percentiles_are_of_the_last_events_count_and_sum_of_all():
    values = Reservoir()
    assert all(math.isnan(value) for value in (*values.quantiles(), values.maximum()))
    for value in range(2_000):
        values.record(float(value))
    kept = range(2_000 - RESERVOIR_SIZE, 2_000)
    assert (values.count, values.sum) == (2_000, sum(range(2_000)))
    assert values.maximum() == 1_999
    found = dict(zip(QUANTILES, values.quantiles(), strict=True))
    assert found[0.5] == pytest.approx(sum(kept) / len(kept), abs=1)
    assert found[0.999] == pytest.approx(1_999, abs=2)
    assert list(found.values()) == sorted(found.values())


def test_events_are_timed_in_the_queue_and_while_they_run():
    now = Now()
    times = EventQueueTimes(now)
    queue = EventQueue()
    queue.times = times

    def takes(seconds, then=None):
        def event():
            now.s += seconds
            if then is not None:
                queue.append(then)
                now.s += seconds

        return event

    queue.append(takes(0.5, takes(0.125)))
    assert list(times.queue_ms.values) == [0.0, 500.0]
    assert list(times.processing_ms.values) == [1_000.0, 125.0]


def test_an_event_that_goes_on_later_is_timed_in_its_turns_and_others_wait_for_it():
    now = Now()
    times = EventQueueTimes(now)
    queue = EventQueue()
    queue.times = times

    def first():
        now.s += 0.25
        queue.hold()

    queue.append(first)
    queue.append(lambda: None)
    now.s += 1.0

    def second():
        now.s += 0.5

    queue.resume(second)
    assert list(times.queue_ms.values) == [0.0, 1_500.0]
    assert list(times.processing_ms.values) == [250.0, 500.0, 0.0]


@play(run)
async def test_time_in_the_loops_select_is_idle_and_time_in_callbacks_is_not():
    now = Now()
    loop = asyncio.get_running_loop()
    selector = loop._selector
    original = selector.select

    def wait_3_s(timeout):
        now.s += 3.0
        return original(0)

    selector.select = wait_3_s
    try:
        idle = IdleTime(loop, now)
        await asyncio.sleep(0)
        now.s += 1.0
        assert idle.ratio() == 0.75
    finally:
        selector.select = original


async def exchange(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.transport.abort()
    return answer


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", b"all 1\n"),
        (b"GET /metrics?x=1 HTTP/1.0", b"200 OK", b"all 1\n"),
        (b"HEAD /metrics HTTP/1.1", b"200 OK", b""),
        (b"GET / HTTP/1.1", b"404 Not Found", b""),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed", b""),
        (b"\xff\xfe", b"405 Method Not Allowed", b""),
    ],
)
@play(run)
async def test_the_page_is_one_and_nothing_else_is_served(*, request_line, status, body):
    endpoint = MetricsEndpoint(lambda: b"all 1\n")
    port = await endpoint.start("127.0.0.1", 0)
    head, _, got = (await exchange(port, request_line + b"\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert got == body
    endpoint.close()


def test_scrapers_are_few_short_and_quick(monkeypatch):
    monkeypatch.setattr("cluster.node.runtime.metrics_endpoint.TIMEOUT_S", 0.3)

    async def test():
        endpoint = MetricsEndpoint(lambda: b"")
        port = await endpoint.start("127.0.0.1", 0)
        long = await exchange(port, b"x" * (MAX_REQUEST_BYTES + 1))
        assert long.startswith(b"HTTP/1.1 431")
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        await until(lambda: len(endpoint.connections) <= MAX_CONNECTIONS)
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.transport.abort()
        await until(lambda: not endpoint.connections)
        endpoint.close()

    run(test)


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        families = text_string_to_metric_families(page.read().decode())
        samples = [sample for family in families for sample in family.samples]
    return {(s.name, s.labels.get("state")): s.value for s in samples}


@pytest.mark.cluster
def test_a_node_serves_its_metrics(tmp_path):
    (port,) = free_ports(1)
    settings = {"kraftprobe.metrics.listener": f"127.0.0.1:{port}"}
    with Nodes(tmp_path, 1, **settings) as nodes:
        active = ("kafka_controller_active_controller_count", None)
        while not (metrics := scrape(port))[active]:
            assert nodes.processes[1].poll() is None
    raft = {name.removeprefix("kafka_server_raft_metrics_"): v for (name, _), v in metrics.items()}
    assert metrics["kafka_server_raft_metrics_current_state", "leader"] == 1.0
    assert metrics["kafka_server_raft_metrics_current_state", "follower"] == 0.0
    assert raft["current_leader"] == raft["current_vote"] == 1
    assert raft["current_epoch"] >= 1
    assert raft["number_of_voters"] == 1
    assert raft["number_unknown_voter_connections"] == 0
    assert 0 < raft["high_watermark"] <= raft["log_end_offset"]
    assert raft["append_records_rate"] > 0
    assert 0 <= raft["poll_idle_ratio_avg"] <= 1
    assert metrics["kafka_controller_new_active_controllers_total", None] == 1
    assert metrics["kafka_controller_event_queue_time_ms_count", None] > 0
    took = metrics["kafka_controller_event_queue_processing_time_ms_max", None]
    total = metrics["kafka_controller_event_queue_processing_time_ms_sum", None]
    assert 0 < took <= total
    assert metrics["kafka_controller_global_topic_count", None] == 0
