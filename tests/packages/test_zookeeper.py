"""Adapter of Apache ZooKeeper against a server that keeps znodes in a dict, and against garbage."""

import asyncio
import struct

import pytest
from kraftprobe_zookeeper import system as zookeeper
from kraftprobe_zookeeper.client import REGISTER, ROOT, SET, read_text, text
from stub_server import outcomes, serving

from checkers.history import EventType
from cluster.node.ports import Endpoint
from cluster.systems.base import Placement
from cluster.systems.kinds import SettingError, SystemRequest
from workloads.base import Op

CREATE, GET_DATA, SET_DATA, GET_CHILDREN = 1, 4, 5, 8


def znodes(kept, kinds=None):
    async def answer(reader, writer):
        async def request():
            return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])

        await request()
        writer.write(text(struct.pack(">iiq", 0, 6000, 1) + text(bytes(16))))
        while True:
            asked = await request()
            xid, kind = struct.unpack_from(">ii", asked)
            if kinds is not None:
                kinds.append(kind)
            path, end = read_text(asked, 8)
            code, body = 0, b""
            if kind == CREATE:
                code = -110 if path in kept else 0
                kept.setdefault(path, read_text(asked, end)[0])
            elif kind == SET_DATA:
                kept[path] = read_text(asked, end)[0]
            elif kind == GET_DATA:
                code = 0 if path in kept else -101
                body = text(kept.get(path, "")) + bytes(68)
            elif kind == GET_CHILDREN:
                names = [name.removeprefix(f"{ROOT}/") for name in kept if name != ROOT]
                body = struct.pack(">i", len(names)) + b"".join(map(text, names))
            writer.write(text(struct.pack(">iqi", xid, 7, code) + (b"" if code else body)))

    return answer


async def garbage(reader, writer):
    await reader.read(4)
    writer.write(struct.pack(">i", 12) + b"x" * 12)  # to the session's first request
    await reader.read(1000)
    writer.write(struct.pack(">i", 16) + b"y" * 16)
    await reader.read()


def made(kind):
    return kind.create({"keys": 8, "write_fraction": 0.5} if kind is not SET else {})


def test_znodes_are_created_once_and_all_of_them_read_at_a_node():
    kept = {}
    ops = [Op("add", None, "a"), Op("add", None, "b"), Op("add", None, "a"), Op("read", node="n1")]
    done = outcomes(made(SET), znodes(kept), *ops)
    assert [each.type.value for each in done] == ["ok", "ok", "fail", "ok"]
    assert (done[-1].value, done[-1].node) == (["a", "b"], "n1")
    assert set(kept) == {ROOT, f"{ROOT}/a", f"{ROOT}/b"}


def test_registers_are_made_by_their_first_write():
    ops = [Op("read", "k1"), Op("write", "k1", "v"), Op("write", "k1", "w"), Op("read", "k1")]
    done = outcomes(made(REGISTER), znodes({}), *ops)
    assert [each.type for each in done] == [EventType.OK] * 4
    assert (done[0].value, done[-1].value) == (None, "w")


@pytest.mark.parametrize(
    ("kind", "op", "reads"),
    [(REGISTER, Op("read", "k1"), GET_DATA), (SET, Op("read", node="n1"), GET_CHILDREN)],
)
def test_a_read_follows_a_write_which_a_deposed_leader_cannot_acknowledge(kind, op, reads):
    kinds = []
    outcomes(made(kind), znodes({}, kinds), op)
    assert kinds == [CREATE, SET_DATA, reads]


@pytest.mark.parametrize(("kind", "op"), [(SET, Op("add", None, "a")), (REGISTER, Op("read", "k"))])
def test_an_answer_that_cannot_be_read_is_a_wrong_answer(kind, op):
    (done,) = outcomes(made(kind), garbage, op)
    assert done.type is not EventType.OK
    assert done.error.startswith("wrong-answer: ValueError")


def asked(**options):
    return SystemRequest({}, options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "version"),
        ({"version": "../x"}, "no release"),
        ({"version": "0.0.1"}, "kraftprobe-zookeeper fetch 0.0.1"),
    ],
)
def test_a_release_that_is_not_there_is_refused_with_what_brings_it(options, said):
    with pytest.raises(SettingError, match=said):
        zookeeper.SYSTEM.create(asked(**options))


def test_each_node_is_given_all_three_ports_of_each(tmp_path, monkeypatch):
    monkeypatch.setattr(zookeeper, "libraries", lambda _: tmp_path)
    system = zookeeper.SYSTEM.create(asked(version="3.9.4"))
    client, election, quorum = (
        tuple(Endpoint(n, "h", port + n) for n in (1, 2)) for port in (10, 20, 30)
    )
    node = Placement(
        "n2", 2, "run", tmp_path, "python", client[1], election[1], election, client, (),
        ports={"QUORUM": quorum},
    )  # fmt: skip
    assert "server.2=h:32:22;h:12" in system.files(node)["zoo.cfg"].splitlines()
    assert f"echo 2 > {tmp_path / 'data'}/myid" in system.command(node)[2]


def test_links_can_be_hurt_only_where_members_agree_on_addresses():
    faults = zookeeper.SYSTEM.faults
    assert "partition" not in faults["local"]
    assert "partition" in faults["netns"]


LEADS = b"Zxid: 0x300000007\nMode: leader\n"


@pytest.mark.parametrize(
    ("answers", "leader"),
    [
        ({b"srvr": LEADS, b"conf": b"serverId=2\n"}, (2, 3)),
        ({b"srvr": b"Zxid: 0x300000007\nMode: follower\n"}, None),
        ({b"srvr": LEADS, b"conf": b"This ZooKeeper instance is not currently serving"}, None),
        ({b"srvr": b"Mode: leader\n", b"conf": b"serverId=2\n"}, None),
        ({}, None),
    ],
)
def test_a_leader_names_itself_and_its_epoch_and_a_node_that_steps_down_none(answers, leader):
    async def answer(reader, writer):
        writer.write(answers.get(await reader.readexactly(4), b""))

    async def body():
        async with serving(answer) as context:
            endpoint = context.endpoint("n2", "CLIENT")
            return await zookeeper.ask_leader(context.connect, endpoint, 5000)

    assert asyncio.run(body()) == leader


def record(payload):
    return bytes(8) + text(payload) + b"B"


def test_all_but_the_last_transaction_of_the_newest_log_can_be_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(zookeeper, "libraries", lambda _: tmp_path)
    system = zookeeper.SYSTEM.create(asked(version="3.9.4"))
    files = dict.fromkeys(("acceptedEpoch", "version-2/log.a0", "version-2/log.f"), 100)
    damageable = system.damageable(files)
    assert (damageable.path, damageable.refuses) == ("version-2/log.a0", True)
    log = bytes(16) + record(b"first ") + record(b"second") + record(b"last") + bytes(50)
    assert [log[place : place + 3] for place in damageable.places(log)] == [b"st ", b"ond"]
    assert system.damageable({"acceptedEpoch": 1}) is None
