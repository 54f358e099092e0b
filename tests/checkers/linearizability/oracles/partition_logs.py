"""The rules for logs with offsets, as `checkers.partition_logs` states them: every pair is looked at."""

from collections import Counter
from itertools import pairwise

from checkers.history import INFINITY_NS, EventType

OK, FAIL = EventType.OK, EventType.FAIL


def judge(operations, *, acks="all", idempotence=False, retries=False):
    """Return two Counters, kinds that are forbidden and kinds that are allowed."""
    wrong, allowed = Counter(), Counter()
    again = retries and not idempotence
    for key in {o.key for o in operations}:
        log = _Partition([o for o in operations if o.key == key], acks, again)
        for kind, cases in log.found().items():
            may = kind == "allowed-loss" or (kind in ("duplicate", "moved") and again)
            (allowed if may else wrong)[kind] += len(cases)
    return +wrong, +allowed


def answer(read, name):
    number = read.output.get(name)
    return None if number is None or number < 0 else number


class _Partition:
    def __init__(self, operations, acks, again):
        self.acks, self.again = acks, again
        self.sends = [o for o in operations if o.f == "send"]
        self.reads = [o for o in operations if o.f != "send" and o.type is OK]
        self.refused = [
            o
            for o in operations
            if o.f != "send" and o.type is FAIL and o.error == "offset_out_of_range"
        ]
        self.records = [
            (send, nth, value) for send in self.sends for nth, value in enumerate(batch(send))
        ]
        self.send_of = {value: send for send, _, value in self.records}
        self.shown = {
            r.index: [tuple(record) for record in r.output["records"]] for r in self.reads
        }
        self.places = {
            value: sorted(
                {o for r in self.reads for o, v in self.shown[r.index] if same(v, value)}
                if send.type is not FAIL
                else ()
            )
            for send, _, value in self.records
        }
        self.placed_elsewhere = self.moved()
        self.lost = {}
        for kind, values in self.losses().items():
            self.lost.update(dict.fromkeys(values, kind))
        self.forbidden = {value for value, kind in self.lost.items() if kind != "allowed-loss"}

    def acknowledged(self, send):
        return send.type is OK and self.acks != "0"

    def offset(self, send):
        return send.offset if send.type is OK and send.offset is not None else None

    def base(self, send):
        """Where a batch begins."""
        if self.offset(send) is not None:
            return send.offset
        for nth, value in enumerate(batch(send)):
            if self.places[value]:
                base = self.places[value][0] - nth
                return base if base >= 0 else None
        return None

    def asked(self, send, nth):
        base = self.base(send)
        return None if base is None else base + nth

    def seen_ns(self, value):
        if self.send_of[value].type is FAIL:
            return INFINITY_NS
        times = [r.complete_ns for r in self.reads if value_in(value, self.shown[r.index])]
        return min(times, default=INFINITY_NS)

    def since_ns(self, send):
        """Since when a send is known to be committed."""
        times = [self.seen_ns(value) for value in batch(send)]
        if send.type is OK and self.acks == "all":
            times.append(send.complete_ns)
        if self.offset(send) is not None and send.epoch is not None:
            end = send.offset + len(batch(send))
            times += [
                r.complete_ns
                for r in self.reads
                if r.epoch == send.epoch and (answer(r, "high_watermark") or 0) >= end
            ]
        return min(times)

    def committed(self, send):
        return self.since_ns(send) < INFINITY_NS

    def place(self, send, nth, value):
        if self.places[value]:
            return self.places[value][0]
        return self.asked(send, nth)

    def begin(self, read):
        if read.f == "poll-all":
            return read.input if read.input is not None else 0
        if read.input is not None:
            return read.input
        before = [
            r
            for r in self.reads
            if r.f == "poll" and r.process == read.process and r.index < read.index
        ]
        for r in reversed(before):
            if self.shown[r.index]:
                return max(o for o, _ in self.shown[r.index]) + 1
            if r.input is not None:
                return r.input
        return None

    def losses(self):
        found = {"lost-write": set(), "lost-committed": set(), "allowed-loss": set()}
        for send, nth, value in self.records:
            if send.type is FAIL:
                continue
            for read in self.reads:
                kind = self.loss(send, nth, value, read) if read.f == "poll-all" else None
                if kind is not None:
                    found[kind].add(value)
        found["allowed-loss"] -= found["lost-write"] | found["lost-committed"]
        return found

    def loss(self, send, nth, value, read):
        if value_in(value, self.shown[read.index]):
            return None
        place, begin = self.place(send, nth, value), self.begin(read)
        if place < begin if place is not None else begin > 0:
            return None
        end = max(
            [answer(read, "high_watermark") or 0, *(o + 1 for o, _ in self.shown[read.index])]
        )
        if self.committed(send):
            if self.since_ns(send) < read.invoke_ns or (place is not None and place < end):
                return "lost-write" if self.acks == "all" and send.type is OK else "lost-committed"
            return None
        if self.acks == "1" and send.type is OK and send.complete_ns < read.invoke_ns:
            if send.epoch is not None and read.epoch is not None and read.epoch <= send.epoch:
                return "lost-write"
            return "allowed-loss"
        return None

    def facts(self):
        """(offset, value) of committed records that the log still has."""
        facts = {
            (o, value)
            for value, places in self.places.items()
            for o in places
            if value not in self.forbidden
        }
        for send, nth, value in self.records:
            free = send.type is not FAIL and value not in self.forbidden
            if free and not self.places[value] and self.committed(send):
                if self.asked(send, nth) is not None:
                    facts.add((self.asked(send, nth), value))
        return facts

    def found(self):
        found = {}
        for value, kind in self.lost.items():
            found.setdefault(kind, set()).add(value)
        found["duplicate"] = {v for v, places in self.places.items() if len(places) > 1}
        found["inconsistent-offsets"] = self.inconsistent()
        found["moved"] = self.placed_elsewhere
        found["torn-batch"] = self.torn()
        seen = {(r.index, o, v) for r in self.reads for o, v in self.shown[r.index]}
        found["phantom"] = {(type(v), v) for _, _, v in seen if not known(v, self.send_of)}
        found["aborted-read"] = {
            v for _, _, v in seen if known(v, self.send_of) and self.send_of[v].type is FAIL
        }
        found["read-before-send"] = {
            value for send, _, value in self.records if self.seen_ns(value) < send.invoke_ns
        }
        found |= self.orders()
        found |= self.polls()
        found["truncated"] = self.truncated()
        found["dirty-read"] = {
            then.index
            for then in self.reads
            for read in self.reads
            if read.complete_ns < then.invoke_ns
            and read.epoch is not None
            and read.epoch == then.epoch
            and answer(then, "high_watermark") is not None
            and (
                any(o >= then.output["high_watermark"] for o, _ in self.shown[read.index])
                or (answer(read, "high_watermark") or 0) > then.output["high_watermark"]
            )
        }
        found["dirty-ack"] = {
            then.index
            for then in self.reads
            for send in self.sends
            if self.acks == "all"
            and self.offset(send) is not None
            and send.complete_ns < then.invoke_ns
            and send.epoch is not None
            and send.node is not None
            and (send.epoch, send.node) == (then.epoch, then.node)
            and answer(then, "high_watermark") is not None
            and send.offset + len(batch(send)) > then.output["high_watermark"]
        }
        starts = any((answer(r, "log_start") or 0) > 0 for r in self.reads)
        found["log-start-moved"] = {0} if starts else set()
        return found

    def inconsistent(self):
        pairs = {(o, type(v), v) for r in self.reads for o, v in self.shown[r.index]}
        pairs |= {(o, type(v), v) for o, v in self.facts()}
        count = Counter(o for o, _, _ in pairs)
        return {o for o, values in count.items() if values > 1}

    def moved(self):
        return {
            value
            for send, nth, value in self.records
            if self.offset(send) is not None
            and self.places[value]
            and send.offset + nth not in self.places[value]
        }

    def torn(self):
        found = set()
        for send in self.sends:
            if self.offset(send) is None:
                seen = [
                    (n, v, self.places[v][0]) for n, v in enumerate(batch(send)) if self.places[v]
                ]
                for nth, value, at in seen[1:]:
                    n, first, begin = seen[0]
                    strangers = self.another(value, begin + nth - n) or self.another(
                        first, at - nth + n
                    )
                    if at - nth != begin - n and (strangers or not self.again):
                        found.add(send.index)
        return found

    def another(self, value, at):
        return any(
            o == at and not same(v, value) and known(v, self.send_of) and self.places[v]
            for r in self.reads
            for o, v in self.shown[r.index]
        )

    def orders(self):
        placed = [
            (send, self.place(send, nth, value), self.done_ns(send, value), value)
            for send, nth, value in self.records
            if send.type is not FAIL
            and self.committed(send)
            and len(self.places[value]) < 2
            and value not in self.placed_elsewhere
            and value not in self.forbidden
            and self.place(send, nth, value) is not None
        ]
        found = {"nonmonotonic-send": set(), "real-time": set()}
        taken = {
            self.place(send, nth, value)
            for send, nth, value in self.records
            if value in self.forbidden and self.committed(send)
        }
        for send, place, done_ns, value in placed:
            below = [s for s, p, _, _ in placed if p < place and s.invoke_ns > done_ns]
            if any(s.process == send.process for s in below):
                found["nonmonotonic-send"].add(value)
            elif below or any(
                place not in taken
                and (answer(read, "high_watermark") or 0) > place
                and read.complete_ns < send.invoke_ns
                for read in self.reads
            ):
                found["real-time"].add(value)
        return found

    def done_ns(self, send, value):
        done = send.complete_ns if self.acknowledged(send) else INFINITY_NS
        return min(done, self.seen_ns(value))

    def polls(self):
        found = {
            name: set()
            for name in ("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll")
        }
        places = {o for o, _ in self.facts()}
        for read in self.reads:
            offsets = [o for o, _ in self.shown[read.index]]
            if any(b <= a for a, b in pairwise(offsets)):
                found["int-nonmonotonic-poll"].add(read.index)
            begin = self.begin(read)
            if offsets and begin is not None and min(offsets) < begin:
                found["nonmonotonic-poll"].add(read.index)
            if not offsets or read.f == "poll-all":
                continue
            if begin is not None and any(begin <= o < min(offsets) for o in places):
                found["poll-skip"].add(read.index)
            if any(min(offsets) <= o <= max(offsets) and o not in offsets for o in places):
                found["int-poll-skip"].add(read.index)
        return found

    def truncated(self):
        return {
            poll.index
            for poll in self.refused
            for read in self.reads
            if poll.input is not None
            and poll.epoch is not None
            and read.epoch is not None
            and read.epoch <= poll.epoch
            and read.complete_ns < poll.invoke_ns
            and any(o >= poll.input - 1 for o, _ in self.shown[read.index])
        }


def batch(send):
    return send.input if isinstance(send.input, list) else [send.input]


def same(a, b):
    return type(a) is type(b) and a == b


def value_in(value, shown):
    return any(same(value, v) for _, v in shown)


def known(value, sent):
    return any(same(value, other) for other in sent)
