"""What a lost connection to a host means to those that wait for its agent; no sshd is needed."""

import asyncio
import contextlib
import queue
import socket
import threading

import pytest

from cluster.backends.agent import frames
from cluster.backends.agent.frames import Message
from cluster.backends.base import BackendError
from cluster.backends.ssh import session as sessions
from cluster.backends.ssh.inventory import HostEntry, Inventory
from cluster.backends.ssh.session import Session
from cluster.backends.ssh.ssh_hosts import SshProvider

ENTRY = HostEntry(address="10.0.0.1")


class Client:
    """A connection; what was opened over it ends with it."""

    def __init__(self):
        self.channels = []
        self.closed = False

    def close(self):
        self.closed = True
        for channel in self.channels:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)  # a close alone wakes no reader
            channel.close()


class Agent:
    """Answers so many requests on each connection, then ends it or is silent."""

    def __init__(self, answers, *, hangs_up=True):
        self.answers = answers
        self.hangs_up = hangs_up
        self.asked = queue.SimpleQueue()
        self.seen = []
        self.connections = 0

    def open_channel(self, client, _relay):
        self.connections += 1
        ours, theirs = socket.socketpair()
        client.channels.append(ours)
        if client.closed:
            client.close()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            for _ in range(self.answers):
                head = stream.read(frames.LENGTHS.size)
                if not head:
                    return
                asked = frames.decode(*map(stream.read, frames.lengths(head)))
                self.asked.put(asked.fields["do"])
                if asked.fields["do"] == "wait":
                    continue
                self.seen += asked.fields["seen"]
                answer = Message({"id": asked.fields["id"], "to": asked.fields["do"]})
                connection.sendall(frames.encode(answer))
            while not self.hangs_up and stream.read(1):
                pass


@pytest.fixture
def clients():
    return []


def join_threads():
    for thread in threading.enumerate():
        if thread.name == "ssh-n1":
            thread.join()


@pytest.fixture
def opened(monkeypatch, clients):
    made = []

    def connect(*_):
        clients.append(Client())
        return clients[-1]

    def open_(agent, reconnect_s):
        monkeypatch.setattr(sessions, "connect", connect)
        monkeypatch.setattr(sessions, "open_channel", agent.open_channel)
        inventory = Inventory(hosts=(ENTRY,), reconnect_s=reconnect_s)
        made.append(Session("n1", ENTRY, inventory, ("relay",)))
        made[-1].open(connect())
        return made[-1]

    yield open_
    for session in made:
        session.close()
    join_threads()


def test_a_host_that_takes_connections_though_its_agent_is_gone_is_given_up(opened):
    agent = Agent(answers=0)
    session = opened(agent, reconnect_s=0.05)
    with pytest.raises(BackendError, match=r"n1 .*did not come back within 0.05 s"):
        session.call_now("wait", timeout_s=300)
    assert agent.connections == 2


def test_an_agent_that_answers_may_be_lost_again_and_again(opened):
    session = opened(Agent(answers=2), reconnect_s=0.05)
    for _ in range(5):
        assert session.call_now("state", timeout_s=300).fields["to"] == "state"
    assert session.reconnects >= 2


def test_a_close_amid_a_reconnection_ends_what_it_connects(opened, clients, monkeypatch):
    session = opened(Agent(answers=1), reconnect_s=300)
    connect, connecting, go_on = sessions.connect, threading.Event(), threading.Event()

    def slowly(*args):
        connecting.set()
        go_on.wait()
        return connect(*args)

    monkeypatch.setattr(sessions, "connect", slowly)
    session.call_now("state", timeout_s=300)
    connecting.wait()
    session.close()
    go_on.set()
    join_threads()
    assert [client.closed for client in clients] == [True, True]


def test_a_connection_over_which_nothing_comes_is_lost(opened, monkeypatch):
    monkeypatch.setattr(sessions, "_SILENCE_S", 0.05)
    agent = Agent(answers=0, hangs_up=False)
    session = opened(agent, reconnect_s=0.05)
    with pytest.raises(BackendError, match=r"n1 .*did not come back within 0.05 s"):
        session.call_now("wait", timeout_s=300)


def test_an_agent_is_asked_something_when_nobody_has_a_request(opened, monkeypatch):
    monkeypatch.setattr(sessions, "_ASK_EVERY_S", 0.01)
    agent = Agent(answers=3, hangs_up=False)
    opened(agent, reconnect_s=300)
    assert [agent.asked.get(timeout=300) for _ in range(3)] == ["ready"] * 3


def test_an_agent_keeps_no_answer_that_has_come_though_an_older_request_waits(opened):
    agent = Agent(answers=10)
    session = opened(agent, reconnect_s=300)
    session._submit("wait", b"", {})
    for _ in range(4):
        session.call_now("state", timeout_s=300)
    assert agent.seen == [2, 3, 4]


def test_hosts_are_lost_once_a_connection_is_given_up(opened, tmp_path):
    provider = SshProvider(Inventory(hosts=(ENTRY,)), tmp_path, "r1")
    provider._sessions["n1"] = opened(Agent(answers=0), reconnect_s=0.05)
    lost = asyncio.run(provider.wait_until_lost())
    assert "the connection was lost and did not come back within 0.05 s" in lost
