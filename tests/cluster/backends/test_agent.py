"""The agent of hosts: its messages, its verbs, and how it begins and ends."""

import asyncio
import errno
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import TIMEOUT_S, eventually

from cluster.backends.agent import channel, cleaning, frames, probes, serving
from cluster.backends.agent.channel import Channel
from cluster.backends.agent.frames import Message
from cluster.backends.base import BackendError
from tests.cluster.client.nodes import free_ports
from tests.play import play

pytestmark = pytest.mark.slow


def read(*data: bytes) -> Message:
    async def body() -> Message:
        reader = asyncio.StreamReader()
        for part in data:
            reader.feed_data(part)
        reader.feed_eof()
        return await frames.read(reader)

    return asyncio.run(body())


def test_a_message_is_read_as_it_was_written():
    message = Message({"id": 7, "do": "run", "command": ["é"]}, bytes(range(256)))
    assert read(frames.encode(message)) == message
    assert read(*(bytes([byte]) for byte in frames.encode(message))) == message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"OCI runtime exec failed\r\nmore", "OCI runtime exec failed"),
        (b"no newline", "no newline"),
        (b"\n", "an empty line"),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * 300),
        (struct.pack(">II", 2, 0) + b"{}", "{}"),
        (struct.pack(">II", 3, 0) + b"[1]", "[1]"),
        (struct.pack(">II", 11, 0) + b'{"id": "1"}', '{"id": "1"}'),
        (struct.pack(">II", 100_000, 0) + b"[" * 100_000, "[" * 300),
        (struct.pack(">II", 0, 1 << 31), "\ufffd"),
    ],
    ids=range(10),
)
def test_what_is_no_message_is_reported_as_the_line_that_it_is(data: bytes, line: str):
    with pytest.raises(frames.NotAMessageError) as refused:
        read(data)
    assert str(refused.value).strip("\0") == line


def with_agent(body, folder: Path) -> None:
    """Run a body with a channel to an agent in this process."""

    async def whole() -> None:
        ours, theirs = socket.socketpair()
        serving_it = asyncio.ensure_future(serving.serve_socket(str(folder), theirs, None))
        opened = Channel("n1", "its host", lambda: asyncio.open_connection(sock=ours))
        try:
            await body(opened)
        finally:
            await opened.close()
            await serving_it

    asyncio.run(whole())


@play(with_agent, given="tmp_path")
async def test_commands_run_beside_each_other_in_the_folder(agent: Channel, *, tmp_path):
    waiting = ("sh", "-c", "until [ -e made ]; do sleep 0.01; done")
    waits = asyncio.ensure_future(channel.run(agent, waiting, b"", TIMEOUT_S))
    done = await channel.run(agent, ("sh", "-c", "pwd; cat >&2; >made; exit 3"), b"in", TIMEOUT_S)
    assert (done.exit_code, done.stdout, done.stderr) == (3, f"{tmp_path}\n".encode(), b"in")
    assert (await waits).exit_code == 0


@play(with_agent, given="tmp_path")
async def test_a_command_is_killed_with_its_children_when_its_time_is_over(
    agent: Channel, *, tmp_path
):
    script = "sleep 600 & echo $! > child; wait"
    with pytest.raises(BackendError, match=r"n1: sh -c .*: no end within 1 s"):
        await channel.run(agent, ("sh", "-c", script), b"", 1.0)
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    await eventually(lambda: not child.exists() or " Z " in child.read_text())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"do": "run", "command": ["/no/such"], "limit_s": 1}, "/no/such: No such file"),
        ({"do": "put", "path": "../outside"}, "../outside is outside of the run's folder"),
        ({"do": "read", "path": "/etc/passwd", "offset": 0}, "/etc/passwd is outside"),
        ({"do": "fly"}, "fly"),
    ],
    ids=["command", "put", "read", "verb"],
)
@play(with_agent, given="tmp_path")
async def test_what_cannot_be_done_is_refused_in_one_line(agent: Channel, *, fields, reason):
    with pytest.raises(BackendError, match=reason):
        await agent.call(**fields)


@play(with_agent, given="tmp_path")
async def test_files_are_written_and_read_from_either_end(agent: Channel, *, tmp_path):
    await agent.call("put", b"0123456789", path="a/b")
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o600
    for offset, rest in ((0, b"0123456789"), (7, b"789"), (-2, b"89"), (-99, b"0123456789")):
        assert (await agent.call("read", path="a/b", offset=offset)).payload == rest
    assert (await agent.call("read", path="none", offset=0)).payload == b""


@play(asyncio.run)
async def test_a_request_that_is_sent_again_is_done_once_and_answered_twice(*, tmp_path):
    ours, theirs = socket.socketpair()
    serving_it = asyncio.ensure_future(serving.serve_socket(str(tmp_path), theirs, None))
    reader, writer = await asyncio.open_connection(sock=ours)
    command = ["sh", "-c", "echo x >> done"]
    request = {"id": 1, "seen": [], "do": "run", "command": command, "limit_s": 60}
    for _ in range(2):
        writer.write(frames.encode(Message(request)))
        assert (await frames.read(reader)).fields == {"id": 1, "exit_code": 0, "split": 0}
    assert (tmp_path / "done").read_text() == "x\n"
    writer.close()
    await serving_it


@play(asyncio.run)
async def test_a_request_that_a_lost_connection_brings_late_is_not_done_again(*, tmp_path):
    agent = serving.agent_of(str(tmp_path), {})
    (lost, lost_end), (new, new_end) = socket.socketpair(), socket.socketpair()
    served = [
        asyncio.ensure_future(agent.serve(*await asyncio.open_connection(sock=end)))
        for end in (lost_end, new_end)
    ]
    reader, writer = await asyncio.open_connection(sock=new)

    async def put(number: int, content: bytes) -> None:
        request = {"id": number, "seen": [number - 1], "do": "put", "path": "file"}
        writer.write(frames.encode(Message(request, content)))
        await frames.read(reader)

    await put(1, b"first")
    await put(2, b"second")
    lost.sendall(
        frames.encode(Message({"id": 1, "seen": [], "do": "put", "path": "file"}, b"late"))
    )
    lost.close()
    await served[0]
    writer.write(frames.encode(Message({"id": 3, "seen": [2], "do": "ready"})))
    await frames.read(reader)
    assert (tmp_path / "file").read_bytes() == b"second"
    writer.close()
    await served[1]


@play(asyncio.run)
async def test_an_agent_ends_with_its_standard_input(*, tmp_path):
    command = (sys.executable, "-P", "-m", "cluster.backends.agent", "stdio", str(tmp_path))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(frames.encode(Message({"id": 1, "seen": [], "do": "ready"})))
    assert (await frames.read(process.stdout)).fields == {"id": 1}
    process.stdin.close()
    assert await process.wait() == 0


def taken_port() -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    held.bind(("127.0.0.1", free_ports(1)[0]))  # no outgoing connection has it either
    return held


@play(with_agent, given="tmp_path")
async def test_an_agent_waits_for_the_port_of_one_that_is_being_killed(
    agent: Channel, *, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probes, "_TAKEN_S", TIMEOUT_S)
    held = taken_port()
    place = {"address": "127.0.0.1", "port": held.getsockname()[1]}
    listening = asyncio.ensure_future(agent.call("listen", **place))
    await asyncio.sleep(0.1)
    assert not listening.done()
    held.close()
    await listening
    await agent.call("listen", **place)


@play(with_agent, given="tmp_path")
async def test_a_port_that_stays_taken_is_reported(
    agent: Channel, *, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probes, "_TAKEN_S", 0.1)
    with taken_port() as held, pytest.raises(BackendError, match=str(errno.EADDRINUSE)):
        await agent.call("listen", address="127.0.0.1", port=held.getsockname()[1])


@play(with_agent, given="tmp_path")
async def test_a_probe_is_counted_where_it_arrives_until_it_is_stopped(agent: Channel):
    port = free_ports(1)[0]
    await agent.call("listen", address="127.0.0.1", port=port)
    packets = {"to": ["127.0.0.1", port], "gap_ms": 1, "size": 64, "from_port": 0}
    sent = await agent.call("send", probe=1, count=3, linger_ms=1_000, **packets)
    assert [sequence for sequence, *_ in sent.fields["answers"]] == [0, 1, 2]
    seen = (await agent.call("seen", probe=1, wait_ms=0)).fields["seen"]
    assert [sequence for sequence, _ in seen] == [0, 1, 2]
    endless = asyncio.ensure_future(
        agent.call("send", probe=2, count=10**9, linger_ms=0, timeout_s=None, **packets)
    )
    assert (await agent.call("seen", probe=2, wait_ms=60_000)).fields["seen"]
    await agent.call("stop", probe=2)
    await endless


@pytest.mark.parametrize("folder", ["r1", "r10"])
def test_a_run_is_cleaned_away_with_what_wrote_over_its_environment(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir()
    here = str(Path(__file__).parent)
    source = (
        f"import sys\nsys.path = [{here!r}, *sys.path]\n"
        "import fake_node\nfake_node.write_title()\nprint(flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source],
        cwd=tmp_path / folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as titled:
        titled.stdout.readline()
        cleaning.kill_all(str(tmp_path / "r1"), "r1", support=False)
        titled.stdin.close()
        assert titled.wait() == (-9 if folder == "r1" else 1)
