"""NATS's client protocol, as far as a set of messages in one JetStream stream needs it."""

import asyncio
import base64
import json
import uuid

from workloads.driven import Refused, set_kind

STREAM, SUBJECT = "KP", "kp.set"
NO_RESPONDERS, STREAM_NOT_FOUND, NO_MESSAGE = "503", 10059, 10037
AT_ONCE = 500
OPTIONS = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
CONFIG = {
    "name": STREAM,
    "subjects": [SUBJECT],
    "num_replicas": 3,
    "storage": "file",
    "retention": "limits",
    "discard": "new",
}


class Stream:
    """One connection; of a group of requests, all are sent before the first answer is read."""

    def __init__(self, reader, writer):
        self._reader, self._writer = reader, writer
        self._inbox, self._count = f"_INBOX.{uuid.uuid4().hex}.", 0

    @classmethod
    async def open(cls, context, node):
        connection = await context.connect(context.endpoint(node, "CLIENT"))
        stream = cls(*await asyncio.open_connection(sock=connection, limit=1 << 24))
        try:
            if not (await stream._reader.readline()).startswith(b"INFO "):
                raise ValueError("no INFO")
            hello = f"CONNECT {json.dumps(OPTIONS)}\r\nSUB {stream._inbox}* 1\r\n"
            stream._writer.write(hello.encode())
            code, _ = await stream._call(f"STREAM.INFO.{STREAM}")
            if code == STREAM_NOT_FOUND:
                code, _ = await stream._call(f"STREAM.CREATE.{STREAM}", CONFIG)
            if code:
                raise ConnectionError(f"code {code}")
        except BaseException:
            stream.close()
            raise
        return stream

    async def _ask(self, *requests):
        """Send (subject, payload) of each; return the (status, payload) that answer them."""
        first = self._count
        for subject, payload in requests:
            head = f"PUB {subject} {self._inbox}{self._count} {len(payload)}\r\n"
            self._writer.write(head.encode() + payload + b"\r\n")
            self._count += 1
        answers = {}
        while len(answers) < len(requests):
            line = await self._reader.readline()
            if not line:
                raise EOFError
            words = line.split()
            match words[0].decode() if words else "":
                case "PING":
                    self._writer.write(b"PONG\r\n")
                case "-ERR":
                    raise ConnectionError(line.decode().strip())
                case "MSG" | "HMSG" as kind:
                    data = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
                    status = ""
                    if kind == "HMSG":
                        size = int(words[-2])
                        said = data[:size].split(b"\r\n", 1)[0].split()
                        status, data = said[1].decode() if len(said) > 1 else "", data[size:]
                    number = int(words[1].decode().removeprefix(self._inbox))
                    # While a stream changes its leader two may answer: the first counts, as for
                    # every client of NATS, though the second comes among later answers.
                    if number >= first:
                        answers.setdefault(number, (status, data))
                case "PONG" | "INFO" | "+OK":
                    pass
                case other:
                    raise ValueError(f"{other!r} is nothing that a server says")
        return [answers[number] for number in range(first, self._count)]

    async def _call(self, api, *messages):
        """Ask JetStream's API; return the code of its error, else 0, and its document."""
        payload = json.dumps(messages[0]).encode() if messages else b""
        ((status, data),) = await self._ask((f"$JS.API.{api}", payload))
        if status:
            raise ConnectionError(status)
        document = json.loads(data)
        return document["error"]["err_code"] if "error" in document else 0, document

    async def add(self, element):
        ((status, data),) = await self._ask((SUBJECT, element.encode()))
        if status == NO_RESPONDERS:
            raise Refused("nobody leads the stream")
        answer = json.loads(data)
        if "error" in answer:
            raise ConnectionError(f"code {answer['error'].get('err_code')}")
        answer["seq"]

    async def all(self):
        """The stream's leader answers, whichever node is asked."""
        code, info = await self._call(f"STREAM.INFO.{STREAM}")
        if code:
            raise ConnectionError(f"code {code}")
        state, found = info["state"], []
        numbers = range(state["first_seq"], state["last_seq"] + 1) if state["messages"] else ()
        for begin in range(0, len(numbers), AT_ONCE):
            asked = [json.dumps({"seq": n}).encode() for n in numbers[begin : begin + AT_ONCE]]
            subject = f"$JS.API.STREAM.MSG.GET.{STREAM}"
            for status, data in await self._ask(*((subject, each) for each in asked)):
                answer = json.loads(data) if not status else {"error": {"err_code": status}}
                code = answer.get("error", {}).get("err_code", 0)
                if code == 0:
                    found.append(base64.b64decode(answer["message"]["data"]).decode())
                elif code != NO_MESSAGE:
                    raise ConnectionError(f"code {code}")
        return found

    def close(self):
        self._writer.close()


SET = set_kind(
    "nats-set", "unique messages published to one stream, all there in the end", Stream.open
)
