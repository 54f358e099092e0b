"""Adapter of etcd against a server that keeps keys in a dict, and against garbage."""

import asyncio
import json

import pytest
from kraftprobe_etcd import system as etcd
from kraftprobe_etcd.client import REGISTER, SERIALIZABLE, SET, decode, encode
from stub_server import outcomes, serving

from checkers.history import EventType
from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kinds import SettingError, SystemRequest
from workloads.base import Op

REVISION = {"header": {"revision": "7"}}


def gateway(kept, seen, *, chunked=False):
    def act(path, asked):
        seen.append(asked)
        if path == "/v3/kv/put":
            kept[decode(asked["key"])] = decode(asked["value"])
        elif path == "/v3/kv/txn":
            key = decode(asked["compare"][0]["key"])
            if key in kept:
                return REVISION
            kept[key] = ""
            return REVISION | {"succeeded": True}
        elif path == "/v3/kv/range":
            begin, end = decode(asked["key"]), decode(asked.get("range_end", ""))
            found = [k for k in kept if k == begin or (end and begin <= k < end)]
            return REVISION | {"kvs": [{"key": encode(k), "value": encode(kept[k])} for k in found]}
        return REVISION

    async def answer(reader, writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            asked = json.loads(await reader.readexactly(size))
            body = json.dumps(act(head.split()[1], asked)).encode()
            if chunked:
                parts = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:9], body[9:]))
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                writer.write(parts + b"0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    return answer


async def garbage(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[{]}")
    await reader.read()


def made(kind):
    return kind.create({"keys": 8, "write_fraction": 0.5} if kind is not SET else {})


@pytest.mark.parametrize("chunked", [False, True])
def test_an_element_is_added_once_and_registers_are_none_of_the_set(chunked):
    kept = {"k1": "of a register"}
    ops = [Op("add", None, "a"), Op("add", None, "a"), Op("read", node="n1")]
    done = outcomes(made(SET), gateway(kept, [], chunked=chunked), *ops)
    assert [each.type.value for each in done] == ["ok", "fail", "ok"]
    assert done[-1].value == ["a"]


@pytest.mark.parametrize(("kind", "serializable"), [(REGISTER, False), (SERIALIZABLE, True)])
def test_reads_are_linearizable_unless_the_workload_says_so(kind, serializable):
    seen = []
    ops = [Op("read", "k1"), Op("write", "k1", "v"), Op("read", "k1")]
    done = outcomes(made(kind), gateway({}, seen), *ops)
    assert [each.value for each in done] == [None, "v", "v"]
    assert [asked.get("serializable") for asked in seen] == [serializable, None, serializable]


@pytest.mark.parametrize(
    ("kind", "op", "ends"),
    [(SET, Op("add", None, "a"), EventType.INFO), (REGISTER, Op("read", "k"), EventType.FAIL)],
)
def test_an_answer_that_cannot_be_read_is_a_wrong_answer(kind, op, ends):
    (done,) = outcomes(made(kind), garbage, op)
    assert done.type is ends
    assert done.error.startswith("wrong-answer: JSONDecodeError")


@pytest.mark.parametrize("part", [b"", b"2", b"9\r\n{}"])
def test_an_answer_that_ends_with_its_member_is_no_wrong_answer(part):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + part)

    (done,) = outcomes(made(SET), answer, Op("read", node="n1"))
    assert (done.type, done.error) == (EventType.FAIL, "IncompleteReadError")


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_member_that_ends_amid_its_answer_is_not_up_and_names_no_leader(part):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(part)

    async def body():
        async with serving(answer) as context:
            endpoint = context.endpoint("n1", "CONTROLLER")
            is_up = await etcd.Etcd.ready(None, context.connect, {"CONTROLLER": endpoint})
            return is_up, await etcd.ask_leader(context.connect, endpoint, 5000)

    assert asyncio.run(body()) == (False, None)


def test_what_is_not_there_is_refused_with_what_brings_it(monkeypatch):
    monkeypatch.setattr(etcd, "program", lambda: None)
    with pytest.raises(SettingError, match="kraftprobe-etcd fetch"):
        etcd.SYSTEM.create(SystemRequest({}, {}))
    with pytest.raises(SettingError, match="fsync"):
        etcd.SYSTEM.check(SystemRequest({}, {"fsync": "perhaps"}))


def test_only_without_fsync_is_a_member_started_by_a_shell(tmp_path, monkeypatch):
    monkeypatch.setattr(etcd, "program", lambda: tmp_path / "etcd")
    client, peer = (tuple(Endpoint(n, "h", port + n) for n in (1, 2)) for port in (10, 20))
    node = Placement("n2", 2, "run", tmp_path, "python", client[1], peer[1], peer, client, ())
    safe, unsafe = (
        etcd.SYSTEM.create(SystemRequest({}, {"fsync": fsync})).command(node)
        for fsync in ("yes", "no")
    )
    assert safe[0] == str(tmp_path / "etcd")
    assert safe[safe.index("--initial-cluster") + 1] == "n1=http://h:21,n2=http://h:22"
    assert "--unsafe-no-fsync" not in safe
    assert (unsafe[0], unsafe[-1]) == ("/bin/sh", "--unsafe-no-fsync")


def frame(size, padding=0):
    head = size | (0x80 | padding) << 56 if padding else size
    return head.to_bytes(8, "little") + bytes(size + padding)


def test_all_but_the_last_long_record_of_the_newest_log_can_be_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(etcd, "program", lambda: tmp_path / "etcd")
    system = etcd.SYSTEM.create(SystemRequest({}, {}))
    files = {"member/snap/db": 9, "member/wal/0-0.wal": 9, "member/wal/1-9.wal": 9}
    damageable = system.damageable(files)
    assert (damageable.path, damageable.refuses) == ("member/wal/1-9.wal", True)
    log = frame(20) + frame(67, 5) + frame(64) + frame(70, 2) + bytes(99)
    assert list(damageable.places(log)) == [28 + 8 + 33, 28 + 80 + 8 + 32]
    assert system.damageable({"member/snap/db": 9}) is None
