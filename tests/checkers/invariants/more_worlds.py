"""Correct systems and brute-force specifications for collections, counters, ids and logs.

A specification is written here a second time, apart from the models. `unique-...` worlds insert
every value once, so that the near-linear rules apply; the others repeat values.
"""

from itertools import product

from checkers.history import EventType
from tests.checkers.histories import FAIL, OK, World, op
from tests.checkers.linearizability import oracle

INFO = EventType.INFO


class ListWorld(World):
    state = ()
    into, unique = "append", False

    def draw(self, index):
        if self.rnd.random() < 0.5:
            return "read", None
        return self.into, index if self.unique else self.rnd.randint(0, 2)

    def run(self, f, argument, index):
        if f == "read":
            return list(self.state), OK, None
        self.state = (*self.state, argument)
        return None, OK, None

    def any_result(self, operation):
        if operation.f != "read":
            return operation.output
        elements = [e for e in range(7) if self.rnd.random() < 0.3]
        self.rnd.shuffle(elements)
        return elements


class UniqueListWorld(ListWorld):
    unique = True


class UniqueSetWorld(ListWorld):
    into, unique = "add", True

    def run(self, f, argument, index):
        result = super().run(f, argument, index)
        if f == "read":
            self.rnd.shuffle(result[0])
        return result


def amount(f, argument):
    value = 1 if argument is None else argument
    return -value if f == "decrement" else value


class CounterWorld(World):
    state = 0
    amounts = (1, 2)

    def draw(self, index):
        if self.rnd.random() < 0.5:
            return "read", None
        amount = self.rnd.choice(self.amounts)
        spellings = [("add", amount), ("increment", amount), ("decrement", -amount)]
        spellings += {1: [("increment", None)], -1: [("decrement", None)]}.get(amount, [])
        return self.rnd.choice(spellings)

    def run(self, f, argument, index):
        if f == "read":
            return self.state, OK, None
        self.state += amount(f, argument)
        return None, OK, None

    def any_result(self, operation):
        if operation.f != "read":
            return operation.output
        return self.rnd.randint(-1, 6) * (self.amounts[-1] if self.rnd.random() < 0.8 else 1)


class EqualCounterWorld(CounterWorld):
    amounts = (2,)


class IdleCounterWorld(CounterWorld):
    amounts = (0, 1)


class QueueWorld(World):
    state = ()
    into, out_of, end = "enqueue", "dequeue", 0
    unique = False

    def draw(self, index):
        if self.rnd.random() < 0.5:
            return self.out_of, None
        return self.into, index if self.unique else self.rnd.randint(0, 2)

    def run(self, f, argument, index):
        if f == self.into:
            self.state = (*self.state, argument)
            return None, OK, None
        if not self.state:
            return (None, FAIL, "empty") if self.rnd.random() < 0.3 else (None, OK, None)
        values = list(self.state)
        value = values.pop(self.end)
        self.state = tuple(values)
        return value, OK, None

    def any_result(self, operation):
        return self.rnd.choice([None, *range(6)]) if operation.f == self.out_of else None


class UnorderedQueueWorld(QueueWorld):
    def run(self, f, argument, index):
        self.end = self.rnd.randrange(len(self.state)) if self.state else 0
        return super().run(f, argument, index)


class DecrementedCounterWorld(CounterWorld):
    amounts = (-1, 1, 2)


class UniqueQueueWorld(QueueWorld):
    unique = True


class MutexWorld(World):
    state = False

    def draw(self, index):
        return self.rnd.choice(["acquire", "release"]), None

    def run(self, f, argument, index):
        if self.state is (f == "acquire"):
            return None, FAIL, "refused"
        self.state = f == "acquire"
        return None, OK, None


class LogWorld(World):
    state = ()
    end = 0
    unique = True

    def draw(self, index):
        f = self.rnd.choice(["append", "append", "read", "read-all"])
        value = index if self.unique else self.rnd.randint(0, 1)
        return f, value if f == "append" else self.rnd.choice([None, 0, 1, 3])

    def run(self, f, argument, index):
        if f == "append":
            self.end += self.rnd.choice([0, 0, 1])
            self.state = (*self.state, (self.end, argument))
            self.end += 1
            return self.end - 1, OK, None
        shown = [[o, v] for o, v in self.state if o >= (argument or 0)]
        if f == "read":
            shown = shown[: self.rnd.randint(0, 4)]
        return shown, OK, None

    def any_result(self, operation):
        if operation.f == "append":
            return self.rnd.randint(0, 6)
        offsets = sorted(self.rnd.sample(range(7), self.rnd.randint(0, 3)))
        return [[o, self.rnd.randint(0, 6)] for o in offsets]


class RepeatedLogWorld(LogWorld):
    """Values come again, and some acknowledgements name no offset."""

    unique = False

    def run(self, f, argument, index):
        result, kind, error = super().run(f, argument, index)
        hidden = f == "append" and self.rnd.random() < 0.4
        return None if hidden else result, kind, error


class BlocksWorld(World):
    state = 0

    def draw(self, index):
        return "allocate", None

    def run(self, f, argument, index):
        self.state += self.rnd.choice([0, 0, 5])
        first, self.state = self.state, self.state + 10
        return [first, 10], OK, None

    def any_result(self, operation):
        return [self.rnd.randint(0, 8) * 5, 10]


class IdsWorld(World):
    state = 0

    def draw(self, index):
        return "generate", None

    def run(self, f, argument, index):
        self.state += 1
        return f"id{self.state}", OK, None

    def any_result(self, operation):
        return f"id{self.rnd.randint(1, 6)}"


def _list(operations):
    def step(state, o):
        if o.f == "read":
            return o.output == list(state), state
        return True, (*state, o.input)

    yield (), step


def _counter(operations):
    def step(state, o):
        return (o.output == state, state) if o.f == "read" else (True, state + amount(o.f, o.input))

    yield 0, step


def _queue(operations):
    def step(state, o):
        if o.f == "enqueue":
            return True, (*state, o.input)
        if o.type is FAIL or (o.type is OK and o.output is None):
            return not state, state
        if not state:
            return o.type is INFO, state
        return o.type is INFO or state[0] == o.output, state[1:]

    yield (), step


def _multiset(operations):
    """Choose beforehand what each indeterminate dequeue took."""
    unknown = [o.index for o in operations if o.f == "dequeue" and o.type is INFO]
    values = sorted({o.input for o in operations if o.f == "enqueue"})
    for took in product(values or [None], repeat=len(unknown)):
        taken = dict(zip(unknown, took, strict=True))

        def step(state, o, taken=taken):
            if o.f == "enqueue":
                return True, tuple(sorted((*state, o.input)))
            value = taken.get(o.index, o.output)
            if value is None:
                return not state, state
            rest = list(state)
            if value not in rest:
                return False, state
            rest.remove(value)
            return True, tuple(rest)

        yield (), step


def _mutex(operations):
    def step(state, o):
        return state is (o.f == "release"), o.f == "acquire"

    yield False, step


def _log(operations):
    """Choose beforehand where each append without an offset went, of all that can matter.

    Between, below and above all offsets that are known there is room for as many as there are.
    """
    unplaced = [o for o in operations if o.f == "append" and o.type is not FAIL]
    unplaced = [o for o in unplaced if o.output is None or o.type is INFO]
    reads = [o for o in operations if o.f.startswith("read") and o.type is OK]
    known = {record[0] for o in reads for record in o.output}
    shown = sorted(known)
    known |= {o.output for o in operations if o.f == "append" and o.type is OK and o.output}
    known |= {o.input for o in operations if o.f.startswith("read") and o.input}
    everywhere = range(max(known, default=0) + len(unplaced) + 1)
    choices = [[None, *shown] if o.type is INFO else everywhere for o in unplaced]
    for places in product(*choices):
        where = {o.index: place for o, place in zip(unplaced, places, strict=True)}

        def step(state, o, where=where):
            if o.f == "append":
                place = where.get(o.index, o.output)
                if place is None:
                    return True, state  # nobody sees it: as if it had not been
                return not state or place > state[-1][0], (*state, (place, o.input))
            begin = o.input or 0
            tail = [[p, v] for p, v in state if p >= begin]
            return (
                o.output == tail if o.f == "read-all" else o.output == tail[: len(o.output)]
            ), state

        yield (), step


def _blocks(operations):
    def step(state, o):
        if o.type is INFO:
            return True, state
        return o.output[0] >= state, o.output[0] + o.output[1]

    yield 0, step


def _ids(operations):
    def step(state, o):
        return (True, state) if o.type is INFO else (o.output not in state, (*state, o.output))

    yield (), step


class BrokerWorld(World):
    """A broker's registration; an unfenced one is fenced now and then while nobody looks."""

    state = (None, 0, True)

    def draw(self, index):
        f = self.rnd.choice(["register", "heartbeat", "heartbeat", "fence", "read"])
        if f == "read":
            return f, None
        asked = {"incarnation": self.rnd.choice("ab")}
        return f, asked if f == "register" else {**asked, "behind": self.rnd.random() < 0.3}

    def run(self, f, argument, index):
        incarnation, epoch, fenced = self.state
        fenced = fenced or self.rnd.random() < 0.2
        if f == "read":
            self.state = (incarnation, epoch, fenced)
            return {"alive": incarnation is not None and not fenced}, OK, None
        asked = argument["incarnation"]
        if f == "register" and asked != incarnation:
            incarnation, epoch, fenced = asked, epoch + self.rnd.randint(1, 2), True
        elif asked != incarnation:
            return None, FAIL, "stale_broker_epoch"
        elif f == "fence":
            fenced = True
        elif f == "heartbeat" and not argument["behind"]:
            fenced = False
        self.state = (incarnation, epoch, fenced)
        return {"epoch": epoch} | ({} if f == "register" else {"fenced": fenced}), OK, None

    def any_result(self, operation):
        if operation.f == "read":
            return {"alive": self.rnd.random() < 0.5}
        shown = {"epoch": self.rnd.randint(1, 4)}
        return shown if operation.f == "register" else shown | {"fenced": self.rnd.random() < 0.5}


def _broker(operations):
    """Go through all states that there can be: (incarnation, epoch, fenced)."""
    shown = {o.output["epoch"] for o in operations if o.type is OK and o.f != "read"}

    def after(state, o):
        incarnation, epoch, fenced = state
        if o.f == "read":
            alive = incarnation is not None and not fenced
            return [state] if o.output["alive"] is alive else []
        answer = o.output if o.type is OK else {}
        if o.f == "register" and o.input["incarnation"] != incarnation:
            # Nobody sees an epoch that no answer shows: the lowest leaves most room above it.
            epochs = [answer["epoch"]] if answer else [epoch + 2**-9, *shown]
            return [(o.input["incarnation"], e, True) for e in epochs if e > epoch]
        if o.input["incarnation"] != incarnation or answer.get("epoch", epoch) != epoch:
            return []
        if o.f == "fence":
            fenced = True
        elif o.f == "heartbeat" and not o.input["behind"]:
            fenced = False
        return [(incarnation, epoch, fenced)] if answer.get("fenced", fenced) is fenced else []

    def step(states, o):
        silent = states | {(i, e, True) for i, e, _ in states}
        reached = frozenset(new for old in silent for new in after(old, o))
        return bool(reached), reached

    yield frozenset({(None, 0, True)}), step


SPECIFICATIONS = {
    "broker": _broker,
    "list-append": _list,
    "set": oracle.SPECIFICATIONS["set"],
    "counter": _counter,
    "queue": _queue,
    "unordered-queue": _multiset,
    "mutex": _mutex,
    "log": _log,
    "producer-ids": _blocks,
    "unique-ids": _ids,
}
oracle.SPECIFICATIONS.update(SPECIFICATIONS)


def paired_history(rnd):
    """Values that go in and come out (or stay) at random times, and a look that found nothing."""
    spans = []
    for value in range(rnd.randint(1, 4)):
        begin = rnd.randint(0, 8)
        spans.append(("enqueue", value, None, begin))
        if rnd.random() < 0.9:
            spans.append(("dequeue", None, value, max(0, begin + rnd.randint(-2, 9))))
    spans += [("dequeue", None, None, rnd.randint(0, 12))] * rnd.randint(0, 1)
    operations = []
    for index, (f, argument, result, begin) in enumerate(spans):
        end = None if rnd.random() < 0.08 else begin + rnd.randint(0, 4)
        output = result if end is not None else None
        operations.append(op(index, f, (begin, end), input=argument, output=output))
    operations.sort(key=lambda o: (o.invoke_ns, o.index))
    return operations


RULED = {
    "list-append": UniqueListWorld,
    "set": UniqueSetWorld,
    "counter": EqualCounterWorld,
    "queue": UniqueQueueWorld,
    "log": LogWorld,
    "producer-ids": BlocksWorld,
    "unique-ids": IdsWorld,
}
"""Model -> a world to which its rule applies."""

SEARCHED = {
    "list-append": ListWorld,
    "counter": CounterWorld,
    "idle-counter": IdleCounterWorld,
    "queue": QueueWorld,
    "mutex": MutexWorld,
    "log": RepeatedLogWorld,
    "unordered-queue": UnorderedQueueWorld,
    "decremented-counter": DecrementedCounterWorld,
    "broker": BrokerWorld,
}
"""Model -> a world with repeated values."""
