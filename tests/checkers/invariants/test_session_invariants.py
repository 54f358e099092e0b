"""Each invariant of brokers' sessions is broken by hand-made looks, not by the closest right ones."""

import math
import uuid
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

from checkers.invariants.sessions import SESSIONS, Registered
from checkers.invariants.watcher import Watcher
from cluster.node.controller.metadata.replay import replay as replay_record
from cluster.node.controller.metadata.state import committed_state
from cluster.node.controller.records.kinds import PartitionRecord, RegisterBrokerRecord, TopicRecord
from cluster.node.errors import ErrorCode
from cluster.node.protocol.messages import (
    NO_THROTTLE,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from harness.sim.sights.sessions import SessionWatch
from tests.checkers.invariants.watching import broken_by


def broken(event, *seen):
    return set(broken_by(*(("n1", event, fields) for fields in seen), among=SESSIONS))


@pytest.mark.parametrize(("silent_ms", "found"), [(999.0, {"fenced-silent"}), (1_000.0, set())])
def test_a_broker_is_fenced_when_it_was_silent_for_its_session(silent_ms, found):
    fields = {"broker": 2, "silent_ms": silent_ms, "session_ms": 1_000.0}
    assert broken("broker-fenced", fields) == found


def test_a_silent_broker_that_is_not_fenced_is_found():
    fields = {"broker": 2, "silent_ms": 2_500.0, "session_ms": 1_000.0}
    assert broken("broker-silent", fields) == {"silent-fenced"}


ANEW = Registered(
    broker=2, epoch=70, silent_ms=math.inf, session_ms=1_000.0, is_clean=True, eligible=()
)


@pytest.mark.parametrize(
    ("registered", "found"),
    [
        (ANEW, set()),
        (replace(ANEW, silent_ms=999.0), {"one-incarnation"}),
        (replace(ANEW, silent_ms=1_000.0), set()),
        (replace(ANEW, eligible=("t-0",)), set()),
        (replace(ANEW, eligible=("t-0",), is_clean=False), {"unclean-ineligible"}),
        (replace(ANEW, is_clean=False), set()),
    ],
    ids=[
        "nobody was there",
        "the one before is alive",
        "its session has just ended",
        "it was stopped in order and remains eligible",
        "it was not",
        "it was eligible nowhere",
    ],
)
def test_an_incarnation_is_registered_when_the_one_before_is_over(registered, found):
    assert broken("broker-registered", {"registered": registered}) == found


@pytest.mark.parametrize(
    ("known", "found"),
    [({1: 70, 3: 71}, set()), ({1: 70, 3: 69}, {"released-in-time"}), ({}, set())],
    ids=["all know", "broker 3 does not", "nobody else is active"],
)
def test_a_broker_ends_when_others_know_that_it_leads_nothing(known, found):
    assert broken("broker-released", {"broker": 2, "offset": 70, "known": known}) == found


@pytest.mark.parametrize(
    ("lost", "named", "found"),
    [(["a"], [], {"offline-reported"}), (["a"], ["a"], set()), ([], ["a"], set())],
    ids=["it is left out", "it is named", "the metadata know of it"],
)
def test_a_heartbeat_names_what_is_out_of_use(lost, named, found):
    assert broken("heartbeat-sent", {"broker": 2, "lost": lost, "named": named}) == found


# -- looks at requests ---------------------------------------------------------------------------

OWN, OTHER = 2, 3
"""The broker that ends or comes back, and one that is alive."""


class Controller:
    """The active controller n1 of brokers 2 and 3, as a watch of a world sees it."""

    def __init__(self):
        self._offset = 10
        self.image = SimpleNamespace(offset=self._offset, state=committed_state())
        heartbeats = SimpleNamespace(session_timeout_ms=1_000.0)
        node = SimpleNamespace(
            controller=SimpleNamespace(
                image=self.image, heartbeats=heartbeats, speculative=self.image
            )
        )
        self.now_ms = 0.0
        self._process = SimpleNamespace(name="n1", node=node, monotonic_ms=lambda: self.now_ms)
        mesh = SimpleNamespace(
            on_ask=defaultdict(list), on_serve=defaultdict(list), on_answer=defaultdict(list)
        )
        self.clock = SimpleNamespace(rate=1.0)
        nodes = {"n1": SimpleNamespace(process=self._process, clock=self.clock)}
        self._mesh, self._observers = mesh, {}
        world = SimpleNamespace(nodes=nodes, observe=self._observe, mesh=mesh)
        self.watcher = Watcher(among=SESSIONS)
        SessionWatch(world, self.watcher)
        for broker in (OWN, OTHER):
            self.register(broker)
        self.sees("claim")
        self.sees("hw")

    def register(self, broker, **changes):
        """Commit a registration, unfenced unless `changes` say otherwise."""
        self._offset += 1
        self.image.offset = self._offset
        self._replay(self.image.state, broker, changes)

    def lead(self, broker):
        """Commit a partition that a broker leads."""
        topic = uuid.UUID(int=1)
        replay_record(self.image.state, TopicRecord(name="t", topic_id=topic))
        partition = PartitionRecord(
            partition_id=0,
            topic_id=topic,
            replicas=(OWN, OTHER),
            isr=(OWN, OTHER),
            leader=broker,
            leader_epoch=0,
            partition_epoch=0,
        )
        replay_record(self.image.state, partition)

    def append(self, broker, **changes):
        """Append a change of what is committed of one broker, and of the other not."""
        ahead = self._process.node.controller.speculative = SimpleNamespace(state=committed_state())
        for other in (OWN, OTHER):
            self._replay(ahead.state, other, changes if other == broker else {})

    def _replay(self, state, broker, changes):
        known = {"fenced": False, "incarnation_id": uuid.UUID(int=broker), **changes}
        record = RegisterBrokerRecord(
            broker_id=broker, broker_epoch=broker, end_points=(), features=(), **known
        )
        replay_record(state, record)

    def _observe(self, hook, *events):
        self._observers |= dict.fromkeys(events, hook)

    def sees(self, event):
        """Let the controller trace an event."""
        self._observers[event](self._process, event, {})

    def answers(self, request, response):
        """Let it answer a broker."""
        for hear in self._mesh.on_serve[type(request)]:
            hear("n1", request)
        for answer in self._mesh.on_answer[type(request)]:
            answer(f"n{request.broker_id}", request, response)

    @property
    def found(self):
        """What is broken."""
        return {violation.property for violation in self.watcher.violations}


def heartbeat(broker, offset, *, shuts_down=False):
    return BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=broker,
        current_metadata_offset=offset,
        want_fence=False,
        want_shut_down=shuts_down,
        offline_log_dirs=(),
    )


def released(*, may_end):
    return BrokerHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        is_caught_up=True,
        is_fenced=True,
        should_shut_down=may_end,
    )


@pytest.mark.parametrize(
    ("fenced", "found"),
    [(False, {"released-in-time"}), (True, set())],
    ids=["another broker does not know yet", "it is fenced and leads nothing (seed 23000100)"],
)
def test_a_broker_that_shuts_down_waits_for_others_unless_it_is_fenced(fenced, found):
    controller = Controller()
    controller.answers(heartbeat(OTHER, 11), released(may_end=False))
    controller.answers(heartbeat(OWN, 12, shuts_down=True), released(may_end=False))
    controller.register(OWN, fenced=fenced, in_controlled_shutdown=True)
    controller.sees("hw")
    controller.answers(heartbeat(OWN, 13, shuts_down=True), released(may_end=True))
    assert controller.found == found


def test_a_broker_that_shuts_down_waits_for_nobody_who_is_about_to_be_fenced():
    """Seed 32000024 of 40 s: it is active again by the time of the answer."""
    controller = Controller()
    controller.answers(heartbeat(OTHER, 11), released(may_end=False))
    controller.register(OWN, in_controlled_shutdown=True)
    controller.sees("hw")
    controller.append(OTHER, fenced=True)
    controller.answers(heartbeat(OWN, 13, shuts_down=True), released(may_end=True))
    assert controller.found == set()


@pytest.mark.parametrize(
    ("leader", "known", "found"),
    [(OWN, 12, {"released-in-time"}), (OTHER, 12, set()), (OWN, 99, set())],
    ids=["another broker sends clients to it", "it leads nothing", "the other knows what is to be"],
)
def test_a_broker_that_leads_is_not_let_go_at_once(leader, known, found):
    controller = Controller()
    controller.lead(leader)
    controller.answers(heartbeat(OTHER, known), released(may_end=False))
    controller.answers(heartbeat(OWN, 12, shuts_down=True), released(may_end=True))
    assert controller.found == found


@pytest.mark.parametrize(
    ("shuts_down", "found"),
    [(False, {"one-incarnation"}), (True, set())],
    ids=["the one before is alive", "it shuts down, as another controller heard (seed 21000072)"],
)
def test_a_second_incarnation_waits_unless_the_first_shuts_down(shuts_down, found):
    controller = Controller()
    controller.register(OWN, in_controlled_shutdown=shuts_down)
    controller.sees("hw")
    controller.answers(
        BrokerRegistrationRequest(
            broker_id=OWN,
            cluster_id="c",
            incarnation_id=uuid.UUID(int=9),
            listeners=(),
            features=(),
            rack=None,
        ),
        BrokerRegistrationResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, broker_epoch=14
        ),
    )
    assert controller.found == found


LATER_MS = (2_000.0, 2_400.0, 2_500.0)


@pytest.mark.parametrize(
    ("looks_ms", "rate", "heard", "found"),
    [
        (LATER_MS, 1.0, False, {"silent-fenced"}),
        (LATER_MS[:2], 1.0, False, set()),
        ((9_000.0, 9_400.0), 1.0, False, set()),
        (LATER_MS, 2.0, False, set()),
        (LATER_MS, 1.0, True, set()),
    ],
    ids=[
        "it is left unfenced",
        "it was overdue a short time ago",
        "the controller was stopped, and has just gone on",
        "the clock of the controller has changed its rate",
        "it was heard of",
    ],
)
def test_a_controller_fences_who_is_silent_in_time(looks_ms, rate, heard, found):
    controller = Controller()
    controller.clock.rate = rate
    for now_ms in looks_ms:
        controller.now_ms = now_ms
        for broker in (OWN, OTHER):
            if heard:
                controller.answers(heartbeat(broker, 12), released(may_end=False))
        controller.sees("hw")
    assert controller.found == found
