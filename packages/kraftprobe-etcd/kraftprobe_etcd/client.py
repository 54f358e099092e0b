"""etcd's JSON gateway, as far as a set of keys and registers need it."""

import asyncio
import base64
import json

from workloads.driven import Refused, register_kind, set_kind

SET_PREFIX, SET_END = "set/", "set0"


def encode(value):
    return base64.b64encode(value.encode()).decode()


def decode(value):
    return base64.b64decode(value, validate=True).decode()


class Http:
    """One connection that is kept; one request at a time."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, connect, endpoint):
        return cls(*await asyncio.open_connection(sock=await connect(endpoint), limit=1 << 24))

    async def get(self, path):
        return await self._answer(f"GET {path} HTTP/1.1\r\nHost: etcd\r\n\r\n".encode())

    async def post(self, path, message):
        """Return the answer's document; an error of the server is a ConnectionError."""
        body = json.dumps(message).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._answer(head.encode() + body)

    async def _answer(self, request):
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readexactly(2)
        else:
            body = await self._reader.readexactly(int(headers["content-length"]))
        status = int(head[0].split()[1])
        if status != 200:
            raise ConnectionError(f"{status}: {body[:60].decode(errors='replace')}")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError(f"{body[:60]!r} is no object")
        return document

    def close(self):
        self._writer.close()


class Keys:
    """Registers are keys, elements of the set are keys below `set/`."""

    serializable = False

    def __init__(self, http):
        self._http = http

    @classmethod
    async def open(cls, context, node):
        return cls(await Http.connect(context.connect, context.endpoint(node, "CLIENT")))

    async def put(self, key, value):
        answer = await self._http.post("/v3/kv/put", {"key": encode(key), "value": encode(value)})
        answer["header"]["revision"]

    async def get(self, key):
        found = await self._range({"key": encode(key)})
        return decode(found[0]["value"]) if found else None

    async def add(self, element):
        key = encode(f"{SET_PREFIX}{element}")
        missing = {"key": key, "target": "VERSION", "result": "EQUAL", "version": 0}
        put = {"requestPut": {"key": key, "value": encode("")}}
        answer = await self._http.post("/v3/kv/txn", {"compare": [missing], "success": [put]})
        answer["header"]["revision"]
        if not answer.get("succeeded"):
            raise Refused("it is there")

    async def all(self):
        found = await self._range({"key": encode(SET_PREFIX), "range_end": encode(SET_END)})
        return [decode(each["key"]).removeprefix(SET_PREFIX) for each in found]

    async def _range(self, asked):
        asked |= {"serializable": self.serializable}
        answer = await self._http.post("/v3/kv/range", asked)
        answer["header"]["revision"]
        return answer.get("kvs", [])

    def close(self):
        self._http.close()


class SerializableKeys(Keys):
    """Reads are of the node's own state, which may be old: so etcd says, and so it is found."""

    serializable = True


SET = set_kind("etcd-set", "keys created once; every node shows each at the end", Keys.open)
REGISTER = register_kind("etcd-register", "keys put and read; linearizable per key", Keys.open)
SERIALIZABLE = register_kind(
    "etcd-register-serializable",
    "the same with serializable reads, which are stale beside a node that is behind: FAIL",
    SerializableKeys.open,
)
