"""Histories of partitions: a small replicated log with leaders that change, and ways to spoil it.

The leader's log has a committed beginning that no later leader lacks; behind it a change of leader
may cut. Each operation takes effect at one moment between its invocation and its completion.
"""

from dataclasses import replace

from checkers.history import INFINITY_NS, EventType, Operation

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO


class Partition:
    def __init__(self, rnd, acks, *, retries=False):
        self.rnd, self.acks, self.retries = rnd, acks, retries
        self.log = []
        """Values; None for what no consumer is shown."""
        self.ends = [0]
        """Where batches end: nothing is committed or cut within one."""
        self.committed = self.mark = 0
        self.epoch = 0

    @property
    def leader(self):
        return f"n{self.epoch % 3 + 1}"

    def lead(self):
        """Something happens that no client does."""
        rnd = self.rnd
        chance = rnd.random()
        if chance < 0.3:
            self.epoch += 1
            end = rnd.choice([end for end in self.ends if end >= self.committed])
            del self.log[end:]
            self.ends = [each for each in self.ends if each <= end]
            self.mark = rnd.choice([end for end in self.ends if end <= self.committed])
            if rnd.random() < 0.5:
                self.append([None])
        elif chance < 0.8:
            self.commit(rnd.choice([end for end in self.ends if end >= self.committed]))

    def append(self, values):
        self.log += values
        self.ends.append(len(self.log))

    def commit(self, end):
        self.committed = max(self.committed, end)
        self.mark = self.committed

    def send(self, values):
        """Return type, offset and epoch."""
        rnd = self.rnd
        chance = rnd.random()
        if chance < 0.1:
            return FAIL, None, None
        if chance < 0.2:
            return INFO, None, None
        if self.retries and rnd.random() < 0.3:
            self.append(values)
        offset = len(self.log)
        self.append(values)
        if chance < 0.3:
            return INFO, None, None
        if self.acks == "0":
            return OK, None, None
        if self.acks == "all":
            self.commit(len(self.log))
        believed = self.epoch - (rnd.random() < 0.2) if self.epoch else 0
        return OK, None if rnd.random() < 0.1 else offset, rnd.choice([None, believed, believed])

    def poll(self, position, *, whole=False):
        """Return type, answer, epoch and error."""
        rnd = self.rnd
        epoch = rnd.choice([None, self.epoch, self.epoch])
        if position is not None and position > len(self.log):
            return FAIL, None, epoch, "offset_out_of_range"
        if whole:
            self.commit(len(self.log))
        begin = position or 0
        end = self.mark if whole else min(self.mark, begin + rnd.randint(0, 6))
        records = [[o, self.log[o]] for o in range(begin, end) if self.log[o] is not None]
        said = {"records": records}
        if rnd.random() < 0.7:
            said["high_watermark"] = self.mark
        if rnd.random() < 0.7:
            said["log_start"] = 0
        return OK, said, epoch, None


def history(rnd, acks="all", *, retries=False, batches=True, size=8):
    """A right history of one or two partitions, and final reads of most of them."""
    logs = {
        key: Partition(rnd, acks, retries=retries)
        for key in ("t0-0", "t0-1")[: rnd.choice([1, 1, 2])]
    }
    clocks = dict.fromkeys(range(4), 0)
    plans = []
    for _ in range(rnd.randint(1, size)):
        process = rnd.choice(list(clocks))
        begin = clocks[process] + rnd.randint(1, 6)
        point = begin + rnd.randint(0, 6)
        end = point + rnd.randint(0, 6)
        clocks[process] = end
        plans.append((point, begin, end, process))
    plans.sort()
    last = max(clocks.values())
    positions, gone, count, found = {}, {}, 0, []
    for _, begin, end, process in plans:
        key = rnd.choice(list(logs))
        log = logs[key]
        for _ in range(rnd.randint(0, 2)):
            log.lead()
        name = process + 4 * gone.get(process, 0)
        fields = {
            "process": name,
            "key": key,
            "node": log.leader if rnd.randint(1, 3) > 1 else "n4",
        }
        if rnd.random() < 0.55:
            values = list(range(count, count + (rnd.choice([1, 1, 2, 3]) if batches else 1)))
            count += len(values)
            given = values if len(values) > 1 else values[0]
            kind, offset, epoch = log.send(values)
            made = {"f": "send", "input": given, "offset": offset, "epoch": epoch, "error": None}
            made["output"] = given if kind is OK else None
        else:
            last_end = positions.get((name, key))
            position = rnd.choice([None, last_end, rnd.randint(0, len(log.log) + 1)])
            real = last_end if position is None else position
            kind, said, epoch, error = log.poll(real)
            made = {"f": "poll", "input": position, "output": said, "epoch": epoch, "error": error}
            if kind is OK:
                shown = said["records"]
                positions[name, key] = shown[-1][0] + 1 if shown else real
        if kind is INFO:
            gone[process] = gone.get(process, 0) + 1
        done = INFINITY_NS if kind is INFO else end
        found.append((begin, {"type": kind, "complete_ns": done, **fields, **made}))
    for number, key in enumerate(list(logs)):
        if rnd.random() < 0.9:
            begin = last + 1 + 2 * number
            _, said, epoch, _ = logs[key].poll(None, whole=True)
            made = {"f": "poll-all", "input": None, "output": said, "epoch": epoch, "error": None}
            made |= {
                "type": OK,
                "complete_ns": begin + 1,
                "process": 99,
                "key": key,
                "node": logs[key].leader,
            }
            found.append((begin, made))
    found.sort(key=lambda pair: pair[0])
    return [
        Operation(index=index, invoke_ns=begin, **fields)
        for index, (begin, fields) in enumerate(found)
    ]


def spoilt(rnd, operations):
    """One thing of a history is otherwise."""
    spots = list(range(len(operations)))
    rnd.shuffle(spots)
    for spot in spots:
        changed = _other(rnd, operations[spot], operations)
        if changed is not None:
            return [*operations[:spot], changed, *operations[spot + 1 :]]
    return operations


def _other(rnd, o, operations):
    values = [v for s in operations if s.f == "send" for v in _batch(s)]
    kind = rnd.choice(["records", "records", "records", "marks", "epoch", "times", "input"])
    if kind == "epoch":
        return replace(o, epoch=rnd.choice([None, 0, 1, 2]))
    if kind == "times" and o.complete_ns < INFINITY_NS:
        by = rnd.randint(-15, 15)
        begin = max(0, o.invoke_ns + by)
        return replace(o, invoke_ns=begin, complete_ns=begin + o.complete_ns - o.invoke_ns)
    if o.f == "send":
        if kind == "marks" and o.offset is not None:
            return replace(o, offset=max(0, o.offset + rnd.randint(-2, 2)))
        if kind == "input" and o.type is OK:
            return replace(o, type=FAIL, offset=None)
        return None
    if kind == "input" and rnd.random() < 0.5:
        return replace(o, input=rnd.choice([None, 0, 1, 2, 3]))
    if kind == "input" and o.f == "poll":
        return replace(o, type=FAIL, output=None, error="offset_out_of_range")
    if o.type is not OK:
        return None
    if kind == "marks":
        name = rnd.choice(["high_watermark", "log_start"])
        return replace(o, output=o.output | {name: rnd.randint(0, 6)})
    records = [list(record) for record in o.output["records"]]
    return replace(o, output=o.output | {"records": _bent(rnd, records, values)})


def _bent(rnd, records, values):
    chance = rnd.random()
    if records and chance < 0.4:
        del records[rnd.randrange(len(records))]
    elif len(records) > 1 and chance < 0.5:
        rnd.shuffle(records)
    elif records and chance < 0.65:
        rnd.choice(records)[1] = rnd.choice([*values, "alien", None])
    elif records and chance < 0.8:
        record = rnd.choice(records)
        record[0] = max(0, record[0] + rnd.randint(-2, 2))
    elif values:
        place = rnd.randint(0, len(records))
        offset = records[place - 1][0] + 1 if place else 0
        records.insert(place, [offset, rnd.choice([*values, "alien"])])
    return records


def _batch(send):
    return send.input if isinstance(send.input, list) else [send.input]
