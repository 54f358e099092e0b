"""The costliest requests of every served API: how long one keeps a node from everybody else.

Each API of each listener is asked in its highest version with its lists at their bounds: the same
element over and over, distinct elements, lists nested in one element, and distinct elements of
each of which all is asked for (a list that may be null is). What counts is the longest piece of
processor time that the node's loop spends without looking at anything else, and the processor time
of the whole request; a stranger may send it without credentials.

    python -m benchmarks.node.requests [--elements N] [--topics N] [API ...]
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import datetime as dt
import struct
import tempfile
import time
import uuid
from pathlib import Path

from cluster.node.errors import ErrorCode
from cluster.node.protocol import messages as m
from cluster.node.protocol.apis import LISTENER_APIS, ApiKey, ListenerType, request_class
from cluster.node.protocol.codec import MAX_REQUEST_ELEMENTS
from cluster.node.wire.schema import element, is_array, is_optional
from tests.cluster.node.runtime.live_node import LiveNode
from tests.cluster.node.runtime.mutated_frames import encoded

ANSWER_S = 120.0
SHAPES = ("same", "distinct", "nested", "whole")


class Pieces:
    """Processor time of each callback of the loop: the longest, and all together."""

    def __init__(self) -> None:
        self.longest_s = self.total_s = 0.0
        run = asyncio.events.Handle._run

        def timed(handle):
            begin = time.process_time()
            try:
                run(handle)
            finally:
                took = time.process_time() - begin
                self.longest_s = max(self.longest_s, took)
                self.total_s += took

        asyncio.events.Handle._run = timed

    def reset(self) -> None:
        self.longest_s = self.total_s = 0.0


class Builder:
    """Entities with lists of `elements` elements: outer lists, or the innermost ones."""

    def __init__(self, shape: str, elements: int, topics: int) -> None:
        self.shape, self.elements, self.topics = shape, elements, topics
        self.count = 0

    def entity(self, cls, *, lists=True):
        return cls(**{f.name: self._field(f, lists) for f in dataclasses.fields(cls)})

    def _field(self, field, lists):
        inner = element(field.type)
        structured = dataclasses.is_dataclass(inner)
        if not is_array(field.type):
            if structured:
                return None if is_optional(field.type) else self.entity(inner, lists=lists)
            return self._value(field)
        if not lists:
            if self.shape == "whole" and is_optional(field.type):
                return None
            return (self._item(field, inner, structured, lists=False),)
        below = structured and any(is_array(f.type) for f in dataclasses.fields(inner))
        if self.shape == "nested" and below:
            return (self._item(field, inner, structured, lists=True),)
        if self.shape == "same":
            return (self._item(field, inner, structured, lists=False),) * self.elements
        return tuple(
            self._item(field, inner, structured, lists=False) for _ in range(self.elements)
        )

    def _item(self, field, inner, structured, *, lists):
        self.count += 1
        return self.entity(inner, lists=lists) if structured else self._value(field)

    def _value(self, field):
        kind, name = field.metadata["kafka_type"], field.name
        at = 0 if self.shape == "same" else self.count
        if kind == "string":
            if "topic" in name or name in {"name", "resource_name"}:
                return f"t{at % self.topics}" if at < self.topics else f"x{at}"
            return f"name{at}"
        if name == "resource_type":
            return 2
        return {
            "int8": 2,
            "int16": 1,
            "int32": at % 1000,
            "int64": at,
            "uint16": 9092,
            "float64": 1.0,
            "bool": True,
            "records": b"",
            "bytes": b"",
            "uuid": uuid.UUID(int=at + 1),
            "error_code": ErrorCode.none,
            "datetime_i64": dt.datetime.fromtimestamp(1, dt.UTC),
            "timedelta_i32": dt.timedelta(seconds=1),
            "timedelta_i64": dt.timedelta(seconds=1),
        }[kind]


def body_of(key: int, version: int, shape: str, elements: int, topics: int) -> bytes:
    """Encode an API's request; its lists together hold about `elements` elements."""
    cls = request_class(key, version)
    lists = sum(is_array(f.type) for f in dataclasses.fields(cls))
    builder = Builder(
        shape, max(1, elements // max(1, lists) // (4 if shape != "nested" else 1)), topics
    )
    return encoded(builder.entity(cls), "c")


async def ask(live: LiveNode, listener: ListenerType, body: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", live.ports[listener])
    writer.write(struct.pack(">i", len(body)) + body)
    try:
        async with asyncio.timeout(ANSWER_S):
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            await reader.readexactly(size)
            return f"{size:,} bytes"
    except asyncio.IncompleteReadError:
        return "hung up"
    except TimeoutError:
        return "no answer"
    finally:
        writer.transport.abort()


def serves(broker) -> bool:
    return broker is not None and not broker.fenced


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--elements", type=int, default=MAX_REQUEST_ELEMENTS)
    options.add_argument("--topics", type=int, default=700)
    options.add_argument("apis", nargs="*")
    given = options.parse_args()
    pieces = Pieces()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        live = LiveNode(Path(folder))
        live.wait_until(lambda: serves(live.node.controller.image.state.brokers.get(1)))
        for at in range(0, given.topics, 500):
            names = [f"t{n}" for n in range(at, min(at + 500, given.topics))]
            topics = tuple(
                m.CreatableTopic(
                    name=n, num_partitions=1, replication_factor=1, assignments=(), configs=()
                )
                for n in names
            )
            request = m.CreateTopicsRequest(
                topics=topics, timeout=dt.timedelta(seconds=30), validate_only=False
            )
            answer = live.answer(ListenerType.BROKER, request)
            assert {topic.error_code for topic in answer.topics} == {ErrorCode.none}, answer.topics[
                0
            ]
        for listener in ListenerType:
            for key, versions in LISTENER_APIS[listener].items():
                name = ApiKey(key).name
                if given.apis and name not in given.apis:
                    continue
                for shape in SHAPES:
                    body = body_of(key, versions.highest, shape, given.elements, given.topics)
                    pieces.reset()
                    answer = live.loop.run_until_complete(ask(live, listener, body))
                    rows.append(
                        (
                            pieces.longest_s,
                            pieces.total_s,
                            name,
                            listener.value,
                            shape,
                            len(body),
                            answer,
                        )
                    )
                    print(*rows[-1], flush=True)
                    if live.broken:
                        print("  BROKEN", live.broken)
                        live.broken.clear()
        live.close()
    print(f"{'longest ms':>10} {'all ms':>8}  request")
    for longest, total, name, listener, shape, size, answer in sorted(rows, reverse=True):
        print(
            f"{longest * 1e3:10.0f} {total * 1e3:8.0f}  "
            f"{name} ({listener}, {shape}, {size:,} bytes): {answer}"
        )


if __name__ == "__main__":
    main()
