"""A node of a replicated register: Attiya, Bar-Noy and Dolev, "Sharing memory robustly" (1995).

`python shared_cells_node.py '{"id": 1, "client": [host, port], "peer": [host, port],
"peers": [[host, port], ...], "data": folder, "reads": "majority"}'`

One JSON object on each line, over TCP. Each value has a tag, and the highest tag wins. A client may
ask any node. A write learns the highest tag from a majority and stores a higher one at a majority.
A read takes the value of the highest tag of a majority and stores it at a majority before it
answers, or a later read might not see it. No node leads.

The planted bug, `"reads": "local"`: a read answers with the node's own copy, which a majority may
have moved past.
"""

import asyncio
import json
import os
import sys
import uuid

NOTHING = [0, ""], None  # tag and value of what was never written
PEER_TIMEOUT_S = 0.5


class Node:
    def __init__(self, config):
        self.config = config
        self.cells = {}
        os.makedirs(config["data"], exist_ok=True)
        path = os.path.join(config["data"], "cells.jsonl")
        if os.path.exists(path):
            with open(path) as kept:
                for line in kept:
                    if line.startswith("[") and line.endswith("]\n"):  # a kill may tear the last
                        key, tag, value = json.loads(line)
                        self.cells[key] = tag, value
        self.log = open(path, "a")
        self.log.write("\n")  # behind what was torn

    def get(self, key):
        return self.cells.get(key, NOTHING)

    def put(self, key, tag, value):
        if tag > self.get(key)[0]:
            self.log.write(json.dumps([key, tag, value]) + "\n")
            self.log.flush()
            os.fsync(self.log.fileno())
            self.cells[key] = tag, value

    async def serve(self, reader, writer):
        while line := await reader.readline():
            try:
                answer = await self.answer(json.loads(line))
            except (RuntimeError, ValueError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def answer(self, message):
        match message:
            case {"get": key}:
                tag, value = self.get(key)
                return {"tag": tag, "value": value}
            case {"put": key, "tag": tag, "value": value}:
                self.put(key, tag, value)
                return {}
            case {"read": key}:
                return {"value": await self.read(key)}
            case {"write": key, "value": value}:
                newest = max(answer["tag"] for answer in await self.majority({"get": key}))
                tag = [newest[0] + 1, uuid.uuid4().hex]
                await self.majority({"put": key, "tag": tag, "value": value})
                return {}

    async def read(self, key):
        if self.config["reads"] == "local":
            return self.get(key)[1]
        newest = max(await self.majority({"get": key}), key=lambda answer: answer["tag"])
        await self.majority({"put": key, **newest})
        return newest["value"]

    async def majority(self, message):
        """Ask all nodes, this one too; returns the first answers, of more than half of them."""
        asked = [asyncio.create_task(self.ask(*peer, message)) for peer in self.config["peers"]]
        answers = []
        for done in asyncio.as_completed(asked):
            try:
                answers.append(await done)
            except (OSError, ValueError, TimeoutError):
                continue
            if len(answers) > len(asked) // 2:
                return answers
        raise RuntimeError("no majority answers")

    async def ask(self, host, port, message):
        async with asyncio.timeout(PEER_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(json.dumps(message).encode() + b"\n")
                return json.loads(await reader.readline())
            finally:
                writer.close()

    async def run(self):
        for name in ("peer", "client"):
            await asyncio.start_server(self.serve, *self.config[name])
        await asyncio.Event().wait()


asyncio.run(Node(json.loads(sys.argv[1])).run())
