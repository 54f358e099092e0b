"""The data path between simulated brokers: as objects, and through the codec."""

import pytest

from cluster.backends.sim.encoded import WireService
from cluster.backends.sim.mesh import Mesh
from cluster.backends.sim.scheduler import Scheduler
from cluster.backends.sim.settings import SimSettings
from cluster.node.errors import ErrorCode
from cluster.node.ports import Endpoint, Failure
from cluster.node.protocol import data_messages as data
from cluster.node.protocol.apis import NO_FEATURES
from tests.cluster.node.protocol.data_service import Answering
from tests.cluster.node.runtime.test_data_requests import FETCH, FETCHED, appended, produced

APPENDED, FAILED = appended(), appended(ErrorCode.not_leader_or_follower)


class Broker:
    """One incarnation of a node that serves the data path, with or without the wire protocol."""

    name = "n1"
    alive = runs = True

    def __init__(self, answer, *, wire):
        self.handler = Answering(answer)
        self.calls = {}
        self.backlog = []
        self._wire = WireService("CLIENT", self.handler, lambda: NO_FEATURES) if wire else None

    def serve(self, port, message, reply):
        if self._wire is None:
            self.handler.handle("CLIENT", message, reply)
        else:
            self._wire.serve(message, reply)


@pytest.fixture(params=[False, True], ids=["objects", "wire"])
def world(request):
    """Asks a broker that gives one answer; returns what it was asked and all replies."""

    def run(message, answer):
        scheduler = Scheduler()
        mesh = Mesh(scheduler, 1, SimSettings())
        broker = mesh.hosts["n1"] = Broker(answer, wire=request.param)
        replies = []
        mesh.request("n2", None, Endpoint(1, "n1", 9092), message, 1_000.0, replies.append)
        assert replies == [], "on_reply was called within request()"
        scheduler.run_until(lambda: False, 5_000)
        assert broker.calls == {}
        return broker.handler.asked, replies

    return run


def test_a_fetch_of_data_is_answered_with_data(world):
    assert world(FETCH, FETCHED) == ([FETCH], [FETCHED])


@pytest.mark.parametrize("answer", [APPENDED, FAILED])
def test_a_produce_with_acks_0_is_done_when_it_is_sent(world, answer):
    assert world(produced(0), answer) == ([produced(0)], [data.UNANSWERED])


@pytest.mark.parametrize("answer", [APPENDED, FAILED])
def test_a_produce_with_acks_gets_its_response(world, answer):
    assert world(produced(-1), answer) == ([produced(-1)], [answer])


def test_a_produce_with_acks_0_to_a_dead_broker_was_not_sent():
    scheduler = Scheduler()
    mesh = Mesh(scheduler, 1, SimSettings())
    replies = []
    mesh.request("n2", None, Endpoint(1, "n1", 9092), produced(0), 1_000.0, replies.append)
    scheduler.run_until(lambda: False, 5_000)
    assert replies == [Failure.NOT_SENT]
