"""The channel into a container, with what an engine was seen to write on it in the agent's place."""

import asyncio
import base64
import json
import socket

import pytest

from cluster.backends.base import BackendError
from cluster.backends.docker.channel import Channel

pytestmark = pytest.mark.slow

STDOUT, STDERR = 1, 2
OCI = b"OCI runtime exec failed: exec failed: container_linux.go:380: process not found: unknown"


def frame(stream, data):
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def answer(request, stdout=b"done"):
    fields = {"id": request["id"], "exit_code": 0, "stderr": ""}
    return json.dumps({**fields, "stdout": base64.b64encode(stdout).decode()}).encode() + b"\n"


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
            while line := await reader.readline():
                for written in script(json.loads(line)):
                    if written is None:
                        return
                    writer.write(frame(*written))
        except ConnectionResetError:
            pass  # the channel hung up first
        finally:
            writer.close()


def run_twice(*scripts):
    """Run a command over a channel twice; what each time came out, and how often it connected."""
    engine = Engine(*scripts)

    async def go():
        channel = Channel(None, "container", "n1")
        channel._exec = engine.connect
        serving = asyncio.create_task(engine.serve())
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append((await channel.run(("true",), b"", 20)).stdout)
            except BackendError as error:
                outcomes.append(str(error))
        await channel.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return outcomes

    return asyncio.run(go()), engine.connections


def good(request):
    return [(STDOUT, answer(request))]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (OCI + b"\r\n", OCI.decode()),
        (b"a warning\n", "a warning"),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b"\n", "an empty line"),
        (b"[1]\n", "[1]"),
        (b"7\n", "7"),
        (b"{}\n", "{}"),
        (b"[" * 100_000 + b"\n", "[" * 300),
        (b'{"id": []}\n', '{"id": []}'),
        (b'{"id": 0, "exit_code": 0}\n', '{"id": 0, "exit_code": 0}'),
        (b"x" * 5000 + b"\n", "x" * 300),
    ],
    ids=range(11),
)
def test_a_line_that_is_no_answer_is_one_clear_error_and_the_next_command_connects_anew(
    written, shown
):
    outcomes, connections = run_twice(lambda _: [(STDOUT, written)], good)
    assert outcomes == [f"n1: its container does not answer: not an answer: {shown}", b"done"]
    assert connections == 2


def test_output_of_an_engine_without_a_newline_is_reported_when_it_disconnects():
    outcomes, _ = run_twice(lambda _: [(STDOUT, OCI), None], good)
    assert outcomes == [f"n1: its container does not answer: {OCI.decode()}", b"done"]


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
