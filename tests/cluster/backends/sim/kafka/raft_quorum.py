"""A quorum of Kafka's raft clients, driven frame by frame: messages take 1 ms, and nothing is drawn.

It knows the layout of the frames by itself, so that a change of either side of the pipe is seen.
"""

import heapq
import struct
import subprocess
from collections import defaultdict

RESET, START, STEP, APPEND, KILL, FORMAT = range(6)
RESIGN, SHUTDOWN, SNAPSHOT, STATE, CAP = range(7, 12)
SPOIL = 13
BODIES = {
    "end": "?qqq",
    "send": "iitihhb",
    "reply": "qb",
    "state": "iii",
    "append": "qqiI",
    "flush": "q",
    "truncate": "q",
    "hw": "q",
    "commit": "qib",
    "leader": "ii",
    "fault": "ttt",
    "role": "t",
    "appended": "q",
    "refused": "t",
    "log": "t",
    "unused": "",
    "in flush": "bq",
    "down": "",
    "snapshot": "qiqI",
    "loaded": "qiqI",
    "log start": "q",
    "disk": "qqqq",
    "batch": "qqib",
    "checkpoint": "qib",
    "api": "hhh",
}
KINDS = list(BODIES)
CONFIG = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.retry.backoff.ms": "20",
    "controller.quorum.append.linger.ms": "25",
}


def blob(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">i", len(data)) + data


def directory(node):
    return struct.pack(">QQ", 0x1111111111114111, 0x8000000000000000 + node)


def effects(data):
    at, found = 0, []
    while at < len(data):
        if data[at] == 25:  # voters
            (count,) = struct.unpack_from(">i", data, at + 9)
            found.append(("voters", count))
            at += 13 + 20 * count
            continue
        kind = KINDS[data[at]]
        at += 1
        fields = []
        for letter in BODIES[kind]:
            if letter in "tb" and (letter == "t" or kind != "in flush"):
                (size,) = struct.unpack_from(">i", data, at)
                at += 4
                fields.append(data[at : at + size])
                at += size
            else:
                fields += struct.unpack_from(f">{letter}", data, at)
                at += struct.calcsize(f">{letter}")
        found.append(
            (
                kind,
                *(
                    field.decode() if letter == "t" else field
                    for letter, field in zip(BODIES[kind], fields, strict=True)
                ),
            )
        )
    return found


class Jvm:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, kind, layout="", *fields, rest=b""):
        frame = struct.pack(f">b{layout}", kind, *fields) + rest
        self.process.stdin.write(blob(frame))
        self.process.stdin.flush()
        (size,) = struct.unpack(">i", self.process.stdout.read(4))
        return effects(self.process.stdout.read(size))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Quorum:
    """Nodes from 1 on, a dynamic quorum; `seen` has each effect as (time, node, kind, *fields)."""

    def __init__(self, jvm, voters=3, **config):
        self.jvm, self.voters, self.now = jvm, range(1, voters + 1), 1_000_000
        self.config = {
            **CONFIG,
            **{key.replace("_", "."): str(value) for key, value in config.items()},
        }
        self.queue, self.sequence, self.token = [], 0, 0
        self.seen, self.running, self.wakes, self.asked = [], {}, {}, {}
        self.apis = jvm.call(RESET, "?", False)
        self.cut, self.last, self.roles = set(), [], {}
        voters = b"".join(struct.pack(">i", node) + directory(node) for node in self.voters)
        for node in self.voters:
            jvm.call(FORMAT, "ii", node, len(self.voters), rest=voters)
            self.start(node)

    def start(self, node):
        self.running[node] = self.running.get(node, 0) + 1
        rest = directory(node) + struct.pack(">q", node) + blob("cluster") + b"\1"
        rest += struct.pack(">i", len(self.config))
        rest += b"".join(blob(key) + blob(value) for key, value in self.config.items())
        rest += struct.pack(">ii", 0, len(self.voters))
        rest += b"".join(blob(f"n{voter}") + struct.pack(">i", 9093) for voter in self.voters)
        return self.play(node, self.jvm.call(START, "iq", node, self.now, rest=rest))

    def call(self, node, kind, layout="", *fields, rest=b""):
        return self.play(
            node, self.jvm.call(kind, f"iq{layout}", node, self.now, *fields, rest=rest)
        )

    def append(self, node, value):
        return self.call(node, APPEND, "i", -1, rest=blob(value))

    def kill(self, node, keep=0, torn=0, flush=0):
        self.wakes[node] = None
        self.jvm.call(KILL, "iiii", node, keep, torn, flush)

    def disk(self, node):
        found = defaultdict(list)
        for kind, *fields in self.jvm.call(STATE, "i", node):
            found[kind].append(tuple(fields))
        return found

    def later(self, due, *what):
        self.sequence += 1
        heapq.heappush(self.queue, (due, self.sequence, *what))

    def play(self, node, found):
        life = self.running[node]
        self.last = [(node, *effect) for effect in found]
        for kind, *fields in found:
            self.seen.append((self.now, node, kind, *fields))
            if kind == "send":
                correlation, _, host, _, api, version, body = fields
                target = int(host[1:])
                if not {node, target} & self.cut:
                    self.token += 1
                    self.asked[self.token] = node, life, correlation, version
                    item = struct.pack(">bqhh", 0, self.token, api, version) + blob(body)
                    self.later(self.now + 1, target, self.running.get(target), item)
            elif kind == "reply":
                token, body = fields
                asker, life_then, correlation, version = self.asked.pop(token)
                item = struct.pack(">bih", 1, correlation, version) + blob(body)
                if not {node, asker} & self.cut:
                    self.later(self.now + 1, asker, life_then, item)
            elif kind == "role":
                self.roles[node] = fields[0].split()
            elif kind == "end":
                alive, wake = fields[:2]
                self.wakes[node] = wake if alive else None
                if alive:
                    self.later(max(wake, self.now + 1), node, life, None)
        return found

    def run(self, ms, until=lambda: False):
        end = self.now + ms
        while self.queue and self.queue[0][0] <= end and not until():
            due, _, node, life, item = heapq.heappop(self.queue)
            self.now = max(self.now, due)
            if self.running.get(node) != life or self.wakes.get(node) is None:
                continue
            if item is not None:
                self.call(node, STEP, "i", 1, rest=item)
            elif self.wakes[node] <= self.now:
                self.call(node, STEP, "i", 0)
        self.now = self.now if until() else end

    def leader(self):
        leaders = [
            (int(epoch), node)
            for node, (role, epoch) in self.roles.items()
            if role == "leader" and self.wakes[node]
        ]
        return max(leaders)[1] if leaders else None

    def elect(self):
        self.run(20_000, self.leader)
        return self.leader()

    def of(self, kind, node=None):
        return [
            tuple(rest) for _, by, what, *rest in self.seen if what == kind and node in {None, by}
        ]
