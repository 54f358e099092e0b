"""ZooKeeper's client protocol, as far as a set of znodes and registers need it."""

import asyncio
import struct

from workloads.driven import Refused, register_kind, set_kind

CREATE, GET_DATA, SET_DATA, GET_CHILDREN = 1, 4, 5, 8
NO_NODE, NODE_EXISTS = -101, -110
SESSION_MS = 6000
ROOT = "/kraftprobe"
ANYBODY = struct.pack(">iii", 1, 31, 5) + b"world" + struct.pack(">i", 6) + b"anyone"


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">i", len(data)) + data


def read_text(answer, position):
    size = struct.unpack_from(">i", answer, position)[0]
    end = position + 4 + size
    if size < 0 or end > len(answer):
        raise ValueError(f"{size} bytes at {position} of {len(answer)}")
    return answer[position + 4 : end].decode(), end


class Session:
    """One session, one request at a time; what fails ends it."""

    def __init__(self, reader, writer):
        self._reader, self._writer, self._xid = reader, writer, 0

    @classmethod
    async def open(cls, context, node):
        connection = await context.connect(context.endpoint(node, "CLIENT"))
        session = cls(*await asyncio.open_connection(sock=connection, limit=1 << 24))
        hello = struct.pack(">iqiq", 0, 0, SESSION_MS, 0) + text(bytes(16)) + b"\0"
        session._writer.write(text(hello))
        try:
            await session._receive()
            await session._create(ROOT)
        except BaseException:
            session.close()
            raise
        return session

    async def _receive(self):
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        if not 0 <= size < 1 << 24:
            raise ValueError(f"an answer of {size} bytes")
        return await self._reader.readexactly(size)

    async def _ask(self, kind, body, allowed=None):
        """Return the answer; None: it has the code that is allowed."""
        self._xid += 1
        self._writer.write(text(struct.pack(">ii", self._xid, kind) + body))
        answer = await self._receive()
        xid, _, code = struct.unpack_from(">iqi", answer)
        if xid != self._xid:
            raise ValueError(f"an answer to request {xid}, not {self._xid}")
        if code == 0:
            return answer[16:]
        if code == allowed:
            return None
        raise ConnectionError(f"code {code}")

    async def _create(self, path, data=""):
        """Return whether it was not there."""
        body = text(path) + text(data) + ANYBODY + bytes(4)  # no flags: persistent
        return await self._ask(CREATE, body, NODE_EXISTS) is not None

    async def add(self, element):
        if not await self._create(f"{ROOT}/{element}"):
            raise Refused("it is there")

    async def all(self):
        answer, names, position = await self._read(GET_CHILDREN, ROOT), [], 4
        for _ in range(0 if answer is None else struct.unpack_from(">i", answer)[0]):
            name, position = read_text(answer, position)
            names.append(name)
        return names

    async def put(self, key, value):
        path = f"{ROOT}/{key}"
        if not await self._create(path, value):
            await self._set(path, value)

    async def _set(self, path, value):
        await self._ask(SET_DATA, text(path) + text(value) + struct.pack(">i", -1))

    async def get(self, key):
        answer = await self._read(GET_DATA, f"{ROOT}/{key}")
        return None if answer is None else read_text(answer, 0)[0]

    async def _read(self, kind, path):
        # A node may be behind, but has what its session has written. A sync would not do: a leader
        # that was paused answers it before it learns that another leads (ZOOKEEPER-1675).
        await self._set(ROOT, "")
        return await self._ask(kind, text(path) + b"\0", NO_NODE)

    def close(self):
        self._writer.close()


SET = set_kind("zookeeper-set", "znodes created once; all nodes show each at the end", Session.open)
REGISTER = register_kind("zookeeper-register", "znodes set and read, linearizable", Session.open)
