"""The stream to a container's agent, with what an engine was seen to write in the agent's place."""

import asyncio
import socket

import pytest

from cluster.backends.agent import channel, frames
from cluster.backends.agent.channel import Channel
from cluster.backends.agent.frames import Message
from cluster.backends.base import BackendError
from cluster.backends.docker.process import AgentStream

pytestmark = pytest.mark.slow

STDOUT, STDERR = 1, 2
OCI = b"OCI runtime exec failed: exec failed: container_linux.go:380: process not found: unknown"


def frame(stream, data):
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def answer(request, stdout=b"done"):
    fields = {"id": request.fields["id"], "exit_code": 0, "split": len(stdout)}
    return frames.encode(Message(fields, stdout))


class Engine:
    """Serves the n-th connection by the n-th script: frames a request, None to hang up."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.connections = 0
        self.serving = []

    def connect(self):
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        self.connections += 1
        self.serving.append((ours, self.scripts.pop(0)))
        return theirs

    async def serve(self):
        while True:
            while self.serving:
                await self.serve_one(*self.serving.pop(0))
            await asyncio.sleep(0.005)

    async def serve_one(self, connection, script):
        reader, writer = await asyncio.open_connection(sock=connection)
        try:
            while True:
                for written in script(await frames.read(reader)):
                    if written is None:
                        return
                    writer.write(frame(*written))
        except (ConnectionResetError, asyncio.IncompleteReadError):
            pass  # the channel hung up first
        finally:
            writer.close()


def run_twice(*scripts):
    """Run a command over a channel twice; what each time came out, and how often it connected."""
    engine = Engine(*scripts)

    async def go():
        stream = AgentStream(None, "container", "/", "0:0")
        stream._exec = engine.connect
        agent = Channel("n1", "its container", stream.open)
        serving = asyncio.create_task(engine.serve())
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append((await channel.run(agent, ("true",), b"", 300)).stdout)
            except BackendError as error:
                outcomes.append(str(error))
        await agent.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return outcomes

    return asyncio.run(go()), engine.connections


def good(request):
    return [(STDOUT, answer(request))]


@pytest.mark.parametrize(
    "written", [OCI + b"\r\n", b"a warning\n", b"x" * 200 + b"\n"], ids=range(3)
)
def test_a_line_that_is_no_answer_is_one_clear_error_and_the_next_command_connects_anew(written):
    outcomes, connections = run_twice(lambda _: [(STDOUT, written)], good)
    shown = f"not an answer: {written.decode().strip()}"
    assert outcomes == [f"n1: its container does not answer: {shown}", b"done"]
    assert connections == 2


def test_output_of_an_engine_without_a_newline_is_reported_when_it_disconnects():
    outcomes, _ = run_twice(lambda _: [(STDOUT, OCI), None], good)
    said = f"not an answer: {OCI.decode()}"
    assert outcomes == [f"n1: its container does not answer: {said}", b"done"]


def test_the_last_error_line_of_the_agent_is_reported_when_it_dies():
    complaint = b"Traceback (most recent call last):\n  File ...\nMemoryError\n"
    outcomes, _ = run_twice(lambda _: [(STDERR, complaint), None], good)
    assert outcomes == ["n1: its container does not answer: MemoryError", b"done"]


def test_a_warning_of_the_agent_does_no_harm():
    warned = run_twice(lambda request: [(STDERR, b"a warning\n"), *good(request)])
    assert warned == ([b"done", b"done"], 1)


def test_an_answer_may_come_in_pieces():
    def pieces(request):
        whole = answer(request)
        return [(STDOUT, whole[:7]), (STDERR, b"noise"), (STDOUT, whole[7:])]

    assert run_twice(pieces) == ([b"done", b"done"], 1)
