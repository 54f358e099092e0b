"""What the observer concludes from the nodes' answers, in virtual time."""

import asyncio
from types import SimpleNamespace

import pytest

from cluster.backends.sim import loop
from cluster.client.caller import CallFailed
from cluster.node.ports import Endpoint, Failure
from harness.run.observer import POLL_INTERVAL_S, Observer, describing, in_bound
from harness.run.recorder import Recorder
from workloads.base import LeaderTracker

NODES = ("n1", "n2", "n3")
TURN_S = POLL_INTERVAL_S * len(NODES)


class Quorum:
    """Nodes that report a given leader and epoch: both the backend and the client of a run."""

    nodes = NODES

    def __init__(self):
        self.says = dict.fromkeys(NODES, (1, 1))
        self.asked = []
        self.deaths = []

    def endpoint(self, node, _listener):
        return Endpoint(int(node[1:]), node, 9093)

    def unexpected_deaths(self):
        return self.deaths

    connect = None  # it is asked by other means

    async def describe_quorum(self, peer):
        self.asked.append(peer.endpoint.host)
        said = self.says[peer.endpoint.host]
        if said is None:
            await asyncio.sleep(peer.timeout_ms / 1000)
            raise CallFailed(Failure.TIMED_OUT)
        return SimpleNamespace(leader_id=said[0], leader_epoch=said[1])


class Journal(list):
    def noted(self, f):
        return [event.value for event in self if event.f == f]


@pytest.fixture
def quorum():
    return Quorum()


def watch(quorum, *steps):
    """Let an observer watch; each step is a function and how long to watch after it."""
    journal, tracker = Journal(), LeaderTracker(NODES)

    async def run():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        observer = Observer(quorum, describing(quorum), recorder, tracker)
        watching = asyncio.ensure_future(observer.watch())
        for change, duration_s in steps:
            change()
            await asyncio.sleep(duration_s)
        assert not watching.done(), watching.exception()
        watching.cancel()

    loop.run(run())
    return journal, tracker


def nothing():
    pass


def test_the_first_leader_is_journaled_once_and_asked_in_each_turn_beside_a_node(quorum):
    journal, tracker = watch(quorum, (nothing, 2 * TURN_S - POLL_INTERVAL_S / 2))
    assert journal.noted("leader") == [{"leader": "n1", "epoch": 1}]
    assert quorum.asked == ["n1", "n1", "n2", "n1", "n3", "n1", "n1", "n2", "n1", "n3"]
    assert [(said["node"], said["epoch"]) for said in journal.noted("leads")] == [("n1", 1)] * 6
    assert (tracker.guess, tracker.epoch) == ("n1", 1)


@pytest.mark.parametrize("knows", NODES)
def test_news_of_a_single_node_are_heard_within_a_turn(quorum, knows):
    def elect():
        quorum.says[knows] = (3, 2)

    journal, tracker = watch(quorum, (nothing, 0.05), (elect, TURN_S + 0.01))
    assert journal.noted("leader") == [{"leader": "n1", "epoch": 1}, {"leader": "n3", "epoch": 2}]
    assert (tracker.guess, tracker.epoch) == ("n3", 2)


def test_an_answer_of_an_older_epoch_is_ignored(quorum):
    def depose():
        quorum.says.update(n2=(2, 5), n3=(2, 5))

    journal, tracker = watch(quorum, (nothing, TURN_S), (depose, 4 * TURN_S))
    assert journal.noted("leader") == [{"leader": "n1", "epoch": 1}, {"leader": "n2", "epoch": 5}]
    assert (tracker.guess, tracker.epoch) == ("n2", 5)


def test_a_node_that_does_not_answer_hides_the_news_of_the_others_for_its_time_out_only(quorum):
    def partition():
        quorum.says.update(n1=None, n2=(2, 2), n3=(2, 2))

    journal, _ = watch(quorum, (nothing, TURN_S), (partition, TURN_S + 0.5))
    assert journal.noted("leader")[-1] == {"leader": "n2", "epoch": 2}


def test_what_is_no_node_of_the_run_does_not_lead_it(quorum):
    quorum.says = dict.fromkeys(NODES, (-1, 7))
    journal, tracker = watch(quorum, (nothing, 2 * TURN_S))
    assert journal.noted("leader") == []
    assert tracker.epoch == -1


def test_a_death_is_journaled_once_and_soon(quorum):
    def die():
        quorum.deaths.append(
            SimpleNamespace(node="n2", incarnation=1, exit_code=3, output_tail=("gone",))
        )

    journal, _ = watch(quorum, (nothing, 1.0), (die, POLL_INTERVAL_S + 0.01), (nothing, 2.0))
    assert journal.noted("crash") == [
        {"node": "n2", "incarnation": 1, "exit_code": 3, "output_tail": ["gone"]}
    ]


def test_only_nodes_that_may_lead_are_asked_and_believed(quorum):
    journal, tracker = Journal(), LeaderTracker(NODES[:2])
    quorum.says["n1"] = quorum.says["n2"] = (3, 9)

    async def run():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        return await Observer(quorum, describing(quorum), recorder, tracker).ask()

    assert loop.run(run()) is None
    assert quorum.asked == ["n1", "n2"]


def test_without_epochs_only_a_leader_itself_is_believed_and_each_other_one_is_of_the_next(quorum):
    journal, tracker = Journal(), LeaderTracker(NODES)
    quorum.says = {"n1": (1, None), "n2": (3, None), "n3": None}

    async def ask(_connect, endpoint, _bound_ms):
        return quorum.says[endpoint.host]

    async def run():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        observer = Observer(quorum, ask, recorder, tracker, "CLIENT")
        for says in ({}, {}, {"n1": None}, {"n2": (2, None)}):
            quorum.says |= says
            await observer.ask()

    loop.run(run())
    assert journal.noted("leader") == [{"leader": "n1", "epoch": 0}, {"leader": "n2", "epoch": 1}]


def test_a_question_without_a_bound_of_its_own_holds_up_neither_answers_nor_deaths(quorum):
    journal, tracker = Journal(), LeaderTracker(NODES)

    async def ask(_connect, endpoint, _bound_ms):
        if endpoint.host == "n1":
            await asyncio.Event().wait()
        return 2, 7

    async def run():
        recorder = Recorder(journal, asyncio.get_running_loop().time)
        observer = Observer(quorum, in_bound(ask), recorder, tracker)
        watching = asyncio.ensure_future(observer.watch())
        quorum.deaths.append(SimpleNamespace(node="n3", incarnation=0, exit_code=3, output_tail=()))
        await asyncio.sleep(5.0)
        watching.cancel()
        async with asyncio.timeout(5.0):
            return await observer.ask()

    assert loop.run(run()).leader == "n2"
    assert [value["node"] for value in journal.noted("crash")] == ["n3"]


def test_who_leads_on_in_an_earlier_epoch_is_asked_on(quorum):
    def split():
        quorum.says.update(n2=(2, 2), n3=(2, 2))

    def heal():
        quorum.says["n1"] = (2, 2)

    journal, _ = watch(quorum, (nothing, TURN_S), (split, TURN_S), (heal, TURN_S))
    said = [(said["node"], said["epoch"]) for said in journal.noted("leads")]
    assert said.count(("n1", 1)) == 7
    assert said[-3:] == [("n2", 2)] * 3
