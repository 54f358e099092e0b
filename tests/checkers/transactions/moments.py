"""Whether moments can be chosen that explain a history of Kafka's transactions; and changed ones.

Shares nothing with `checkers.transactions`. What is seen says which transactions committed, so what
is left are moments: of each read, append and decision, each within its bounds and behind others.
The earliest ones are computed by going round until nothing changes.
"""

from collections import defaultdict
from dataclasses import replace

from checkers.history import INFINITY_NS
from tests.checkers.histories import FAIL, INFO, OK
from tests.checkers.transactions.partitions_model import KEYS

READS = ("read", "read-all", "read-uncommitted")
_LITTLE = 1e-6
"""Between two moments in an order; far less than between any two times of a history."""


def why_impossible(operations):
    """Return why no correct Kafka shows this, in a word or two; None: one may."""
    moments = _Moments(operations)
    return moments.wrong_at_once() or moments.wrong_in_time()


class _Moments:
    def __init__(self, operations):
        self.operations = operations
        self.writers = {(k, v): o for o in operations for f, k, v in o.input if f == "append"}
        self.final = {k: v for o in operations if o.f == "read-all" for _, k, v in o.output}
        self.clean, self.dirty = [], []
        for o in operations:
            for place, (f, key, shown) in enumerate(o.output if o.type is OK else ()):
                if f == "r":
                    reads = self.dirty if o.f == "read-uncommitted" else self.clean
                    reads.append((o, place, key, shown))
        seen = {self.writers[k, v].index for _, _, k, r in self.clean for v in r if self.has(k, v)}
        self.committed = {
            o.index for o in operations if o.index in seen or (o.type is OK and o.f != "abort")
        }
        self.bounds, self.after = {}, []

    def has(self, key, value):
        return (key, value) in self.writers

    @staticmethod
    def longest(reads):
        found = defaultdict(list)
        for _, _, key, shown in reads:
            found[key] = max(found[key], shown, key=len)
        return found

    def wrong_at_once(self):
        for o in self.operations:
            never = o.f not in ("txn", *READS)
            if (never or o.type is FAIL) and o.index in self.committed:
                return "aborted"
        for reads in (self.clean, self.dirty):
            longest = self.longest(reads)
            for _, _, key, shown in reads:
                if longest[key][: len(shown)] != shown:
                    return "two orders"
                if len(set(shown)) < len(shown) or not all(self.has(key, v) for v in shown):
                    return "duplicate or phantom"
        for (key, value), o in self.writers.items():
            if o.index in self.committed and value not in self.final[key]:
                return "lost or torn"
        for _, _, key, shown in self.clean:
            if not set(shown) <= set(self.final[key]):
                return "lost"
        return None

    def wrong_in_time(self):
        for o in self.operations:
            end = o.complete_ns if o.type is OK else INFINITY_NS
            self.bounds["decision", o.index] = o.invoke_ns, end
            appends = [(k, v) for f, k, v in o.input if f == "append"]
            for n, (key, value) in enumerate(appends):
                self.bounds[key, value] = o.invoke_ns, end
                self.after.append(((key, value), ("decision", o.index)))
                self.in_order(key, [v for k, v in appends[: n + 1] if k == key][-2:])
        for reads in (self.clean, self.dirty):
            for o, place, key, shown in reads:
                read = "read", o.index, place
                self.bounds[read] = o.invoke_ns, o.complete_ns
                own = [(k, v) for f, k, v in o.input if f == "append"]
                self.after += [(read, append) for append in own]
                for value in shown:
                    by = "decision", self.writers[key, value].index
                    self.after.append((by if reads is self.clean else (key, value), read))
            for key, values in self.longest(reads).items():
                self.in_order(key, values)
        for key, values in self.longest(self.dirty).items():
            for (k, value), o in self.writers.items():
                if values and k == key and value not in values and o.index in self.committed:
                    self.in_order(key, [values[-1], value])
        return self.settle()

    def in_order(self, key, values):
        self.after += zip([(key, v) for v in values], [(key, v) for v in values[1:]], strict=False)

    def settle(self):
        at = {moment: float(begin) for moment, (begin, _) in self.bounds.items()}
        for _ in range(len(at) + 1):
            late = [(a, b) for a, b in self.after if at[b] < at[a] + _LITTLE]
            for a, b in late:
                at[b] = max(at[b], at[a] + _LITTLE)
            if any(at[moment] > end + 0.5 for moment, (_, end) in self.bounds.items()):
                return "too late"
            if not late:
                return None
        return "a circle"


# -- histories with one change ---------------------------------------------------------------------


def changed(random, operations):
    """Return a history with one thing otherwise, which may be as right as before."""
    while True:
        n = random.randrange(len(operations))
        change = random.choice([_read, _read, _read, _ending, _time, _level])
        new = change(random, operations[n], operations)
        if new is not None:
            return [*operations[:n], new, *operations[n + 1 :]]
        if random.random() < 0.2:
            return _swap(random, operations)


def _read(random, o, operations):
    spots = [n for n, step in enumerate(o.output or ()) if step[0] == "r"]
    if o.type is not OK or not spots:
        return None
    steps, spot = [list(step) for step in o.output], random.choice(spots)
    key, shown = steps[spot][1], list(steps[spot][2])
    sent = [v for each in operations for f, k, v in each.input if f == "append" and k == key]
    chance = random.random()
    if chance < 0.25:
        del shown[random.randint(0, len(shown)) :]
    elif chance < 0.5 and sent:
        shown.insert(random.randint(0, len(shown)), random.choice(sent))
    elif chance < 0.75 and shown:
        shown.remove(random.choice(shown))
    else:
        shown = next(
            list(v) for e in operations if e.f == "read-all" for _, k, v in e.output if k == key
        )
    steps[spot][2] = shown
    return replace(o, output=steps)


def _ending(random, o, operations):
    del operations
    kind = random.choice([OK, INFO, FAIL])
    if o.f in READS or kind is o.type or (kind is OK and any(f == "r" for f, *_ in o.input)):
        return None
    end = INFINITY_NS if kind is INFO else min(o.complete_ns, o.invoke_ns + 5)
    return replace(o, type=kind, complete_ns=end, output=o.input if kind is OK else None)


def _time(random, o, operations):
    by = random.randint(-12, 12)
    last = min(each.invoke_ns for each in operations if each.f == "read-all")
    if o.f == "read-all" or o.type is INFO or o.invoke_ns + by < 0 or o.complete_ns + by >= last:
        return None
    return replace(o, invoke_ns=o.invoke_ns + by, complete_ns=o.complete_ns + by)


def _level(random, o, operations):
    del random, operations
    others = {"read": "read-uncommitted", "read-uncommitted": "read"}
    return replace(o, f=others[o.f]) if o.f in others else None


def _swap(random, operations):
    """Two neighbours in the end are the other way round in all reads."""
    key = random.choice(KEYS)
    final = next(v for o in operations if o.f == "read-all" for _, k, v in o.output if k == key)
    place = random.randint(1, len(final) - 1) if len(final) > 1 else 0
    pair = final[place - 1 : place + 1] if place else []
    other = dict(zip(pair, reversed(pair), strict=True))
    return [
        replace(
            o,
            output=[
                [f, k, [other.get(e, e) for e in v] if f == "r" and k == key else v]
                for f, k, v in o.output
            ],
        )
        if o.output
        else o
        for o in operations
    ]
