"""The checker of transactions against a simulator of isolation levels and brute force.

    python -m tests.checkers.transactions.isolation --histories 200000 --processes 2

A history comes from a store that keeps a level (`SYSTEMS`), from such a store that is spoilt
(half of a crashed transaction takes effect, an append takes effect twice, a transaction's appends
come in another order, a read returns something else), or has any reads at all. Some transactions
crash: they take effect as a whole, or not at all. `tests.checkers.transactions.isolation_oracle` tries
everything; the checker is asked for a level, and says of all others which it holds for violated and
which for kept. A disagreement is an error: PASS or kept where the level is not, FAIL or violated
where it is, UNKNOWN where the dependencies say enough. History n is the same on every machine.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checkers import Status
from checkers.history import EventType, Operation
from checkers.run_input import RunInput
from checkers.transactions import check
from checkers.transactions.levels import FORBIDDEN, NOT_LOOKED_FOR
from tests.checkers.histories import op
from tests.checkers.transactions.isolation_oracle import kept

OK, FAIL, INFO = EventType.OK, EventType.FAIL, EventType.INFO
MODELS = ("list-append", "rw-register")
SYSTEMS = {
    "strict": "strict-serializable",
    "late": "serializable",
    "snapshot": "strong-snapshot-isolation",
    "old-snapshot": "snapshot-isolation",
    "committed": "strong-read-committed",
    "uncommitted": "strong-read-uncommitted",
}
"""A store -> the strongest level that it keeps."""
PIECE = 250


@dataclass
class _Client:
    """A transaction on its way."""

    number: int
    steps: list[list[Any]]
    begin: int
    fate: EventType
    is_effective: bool
    snapshot: dict[str, list[Any]] = field(default_factory=dict)
    since: int = 0
    own: dict[str, list[Any]] = field(default_factory=dict)
    done: int = 0
    end: int = 0


class _Store:
    """Lists; a register is the last element of its list."""

    def __init__(self, rnd: Random, system: str, model: str) -> None:
        self.rnd, self.system, self.model = rnd, system, model
        self.committed: dict[str, list[Any]] = {}
        self.versions = [dict[str, list[Any]]()]
        self.written_at: dict[str, int] = {}
        self.dirty: dict[str, tuple[int, list[Any]]] = {}
        """Key -> who holds its lock, and the list with what that appended."""

    def begin(self, client: _Client) -> None:
        last = len(self.versions) - 1
        is_old = self.system == "old-snapshot"
        client.since = self.rnd.randint(0, last) if is_old else last
        client.snapshot = self.versions[client.since]

    def step(self, client: _Client) -> bool:
        """Carry out the next step; False: a lock is held by another transaction."""
        f, key, value = client.steps[client.done]
        if f != "r":
            if self.system in ("committed", "uncommitted"):
                holder, _ = self.dirty.get(key, (client.number, []))
                if holder != client.number:
                    return False
                there = self.dirty.get(key, (0, self.committed.get(key, [])))[1]
                self.dirty[key] = client.number, [*there, value]
            client.own.setdefault(key, []).append(value)
        else:
            client.steps[client.done][2] = self.shown(self.read(client, key))
        client.done += 1
        return True

    def read(self, client: _Client, key: str) -> list[Any]:
        if self.system in ("committed", "uncommitted"):
            holder, there = self.dirty.get(key, (None, []))
            if holder is not None and (self.system == "uncommitted" or holder == client.number):
                return there
            return self.committed.get(key, [])
        return [*client.snapshot.get(key, []), *client.own.get(key, [])]

    def shown(self, elements: list[Any]) -> Any:
        if self.model == "list-append":
            return list(elements)
        return elements[-1] if elements else None

    def commit(self, client: _Client) -> None:
        conflicts = any(self.written_at.get(key, 0) > client.since for key in client.own)
        if self.system.endswith("snapshot") and conflicts:
            client.fate = FAIL
        if client.fate is OK or (client.fate is INFO and client.is_effective):
            self.committed = {
                **self.committed,
                **{k: [*self.committed.get(k, []), *own] for k, own in client.own.items()},
            }
            self.written_at |= dict.fromkeys(client.own, len(self.versions))
            self.versions.append(self.committed)
        self.dirty = {k: d for k, d in self.dirty.items() if d[0] != client.number}


def simulated(
    rnd: Random, system: str, model: str, steps: list[list[list[Any]]]
) -> list[Operation]:
    """Run transactions against a store, concurrently."""
    store = _Store(rnd, system, model)
    waiting = [
        _Client(n, each, 0, rnd.choices((OK, INFO, FAIL), (8, 2, 1))[0], rnd.random() < 0.5)
        for n, each in enumerate(steps)
    ]
    running: list[_Client] = []
    ended: list[_Client] = []
    now = 0
    while waiting or running:
        now += rnd.randint(0, 1)
        if waiting and (not running or rnd.random() < 0.5):
            client = waiting.pop(0)
            client.begin = now
            running.append(client)
            if system not in ("strict", "late"):
                store.begin(client)
            continue
        client = rnd.choice(running)
        if system in ("strict", "late"):  # all of it at once
            store.begin(client)
            while client.done < len(client.steps):
                store.step(client)
        elif client.done < len(client.steps):
            if not store.step(client) and all(
                c.done < len(c.steps) and not _can(store, c) for c in running
            ):
                client.fate, client.done = FAIL, len(client.steps)  # a deadlock
            continue
        store.commit(client)
        running.remove(client)
        client.end = now + rnd.randint(0, 2)
        ended.append(client)
    clients = sorted(ended, key=lambda c: c.number)
    if system == "late":  # it keeps an order of transactions, but no order in time
        times = [(c.begin, c.end) for c in clients]
        rnd.shuffle(times)
        for client, time in zip(clients, times, strict=True):
            client.begin, client.end = time
    return _history(rnd, [(c.steps, c.begin, c.end, c.fate) for c in clients])


def _can(store: _Store, client: _Client) -> bool:
    f, key, _ = client.steps[client.done]
    return f == "r" or store.dirty.get(key, (client.number, []))[0] == client.number


_Row = tuple[list[list[Any]], int, int, EventType]


def _history(rnd: Random, rows: Sequence[_Row]) -> list[Operation]:
    """Make a history of transactions with their times; give them processes."""
    free: list[tuple[int, int]] = []
    history = []
    for index, (steps, begin, end, kind) in enumerate(sorted(rows, key=lambda row: row[1])):
        usable = [each for each in free if each[1] < begin]
        process = index
        if usable and rnd.random() < 0.6:
            chosen = rnd.choice(usable)
            free.remove(chosen)
            process = chosen[0]
        if kind is not INFO:
            free.append((process, end))
        asked = [[f, k, None if f == "r" else v] for f, k, v in steps]
        output = steps if kind is OK else rnd.choice([None, asked])
        history.append(
            op(
                2 * index,
                "txn",
                (begin, None if kind is INFO else end),
                input=asked,
                output=output,
                type=kind,
                process=process,
            )
        )
    return history


def transactions(rnd: Random, model: str, *, repeat: bool) -> list[list[list[Any]]]:
    """Return the steps of some transactions, reads without what they return."""
    count = 0
    result = []
    keys = rnd.choice(("xy", "xy", "xyz"))
    for _ in range(rnd.randint(2, 4)):
        steps: list[list[Any]] = []
        for _ in range(rnd.randint(1, 3)):
            if rnd.random() < 0.5:
                steps.append(["r", rnd.choice(keys), None])
            else:
                count = rnd.randint(1, 2) if repeat else count + 1
                steps.append(["append" if model == "list-append" else "w", rnd.choice(keys), count])
        result.append(steps)
    return result


def _spoil(rnd: Random, steps: list[list[list[Any]]], model: str) -> None:
    """Change what reads return."""
    values: dict[str, list[Any]] = {}
    for f, key, value in (s for each in steps for s in each):
        if f != "r":
            values.setdefault(key, []).append(value)
    reads = [s for each in steps for s in each if s[0] == "r"]
    for step in rnd.sample(reads, min(len(reads), rnd.randint(1, 2))):
        there = values.get(step[1], [])
        if model == "rw-register":
            step[2] = rnd.choice([None, *there])
            continue
        seen = list(step[2] or [])
        way = rnd.random()
        if way < 0.35:
            seen = seen[: rnd.randint(0, len(seen))]
        elif way < 0.55:
            seen = there[: rnd.randint(0, len(there))]
        elif way < 0.7 and seen:
            seen.append(rnd.choice(seen))
        elif way < 0.85 and seen:
            seen.remove(rnd.choice(seen))
        else:
            rnd.shuffle(seen)
        step[2] = seen


def _half(rnd: Random, history: list[Operation], model: str) -> list[Operation]:
    """Have a transaction crash of which reads show one append, and not another."""
    wrote = [o for o in history if sum(s[0] != "r" for s in o.input) > 1 and o.type is OK]
    if not wrote:
        return history
    crashed = rnd.choice(wrote)
    lost = rnd.choice([s for s in crashed.input if s[0] != "r"])
    rows: list[_Row] = []
    for o in history:
        steps = [list(s) for s in (o.output if o.type is OK else o.input)]
        for step in steps:
            if o is not crashed and step[0] == "r" and step[1] == lost[1] and o.type is OK:
                if model == "list-append":
                    step[2] = [e for e in step[2] if e != lost[2]]
                elif step[2] == lost[2]:
                    step[2] = None
        end = 0 if o.type is INFO else o.complete_ns
        rows.append((steps, o.invoke_ns, end, INFO if o is crashed else o.type))
    return _history(rnd, rows)


def _wild(rnd: Random, model: str, steps: list[list[list[Any]]]) -> list[Operation]:
    """Return transactions at any times, of which reads return anything that is near the truth."""
    order = [s for each in rnd.sample(steps, len(steps)) for s in each if s[0] != "r"]
    for step in (s for each in steps for s in each if s[0] == "r"):
        there = [value for _, key, value in order if key == step[1]]
        cut = there[: rnd.randint(0, len(there))]
        step[2] = cut if model == "list-append" else (cut or [None])[-1]
    rows: list[_Row] = []
    for each in steps:
        begin = rnd.randint(0, 6)
        kind = rnd.choices((OK, INFO, FAIL), (8, 2, 0.5))[0]
        rows.append((each, begin, begin + rnd.randint(0, 5), kind))
    return _history(rnd, rows)


def drawn(number: int) -> tuple[list[Operation], str, str | None]:
    """Return history `number`, its model, and the level that it keeps for sure."""
    rnd = Random(f"isolation-{number}")
    model = MODELS[number % 2]
    repeat = model == "rw-register" and rnd.random() < 0.15
    steps = transactions(rnd, model, repeat=repeat)
    way = rnd.random()
    if way < 0.35:
        return _wild(rnd, model, steps), model, None
    system = rnd.choice([*SYSTEMS])
    history = simulated(rnd, system, model, steps)
    if way < 0.6:
        return history, model, SYSTEMS[system]
    if way < 0.75:
        return _half(rnd, history, model), model, None
    rows = [
        (
            [list(s) for s in (o.output if o.type is OK else o.input)],
            o.invoke_ns,
            o.complete_ns,
            o.type,
        )
        for o in history
    ]
    _spoil(rnd, [steps for steps, _, _, kind in rows if kind is OK], model)
    return _history(rnd, rows), model, None


def complaint(number: int) -> tuple[str | None, str]:
    """Judge a history by both; returns what differs, and what became of it."""
    history, model, promised = drawn(number)
    truth, undecided = kept(history, is_list=model == "list-append")
    assert promised is None or not history or promised in truth, (number, "simulator, oracle")
    rnd = Random(f"level-{number}")
    broken = [n for n in FORBIDDEN if n not in truth and n not in undecided]
    level = rnd.choice(broken if broken and rnd.random() < 0.5 else [*FORBIDDEN])
    result = check(RunInput([], history), {"model": model, "consistency": level})
    status = result.status
    committed = any(o.type is OK for o in history)
    wrong = []
    statistics = result.statistics
    violated = {*statistics["weakest_violated"], *statistics["also_violated"]}
    claimed = statistics["strongest_satisfied"]
    known = {name for name in FORBIDDEN if name not in NOT_LOOKED_FOR}
    if violated & truth:
        wrong.append(f"violated by it, but kept: {sorted(violated & truth)}")
    if (set(claimed) & known) - truth:
        wrong.append(f"kept by it, but violated: {sorted((set(claimed) & known) - truth)}")
    if level in NOT_LOOKED_FOR:
        implying = {n for n in truth if n != "read-uncommitted"}
        if status is Status.PASS and not implying:
            wrong.append(f"{level} passes, and nothing implies it")
        right = {Status.PASS, Status.FAIL, Status.UNKNOWN}
    elif level in undecided:
        right = {Status.UNKNOWN}
    else:
        right = {Status.PASS if level in truth else Status.FAIL}
        if level == "consistent-view":  # named in docs/checkers.md
            right.add(Status.UNKNOWN)
        if _repeats(history) and level not in _BY_ORDER:
            right.add(Status.UNKNOWN)
    if not committed:
        right = {Status.UNDER_EXERCISED}
    if status not in right:
        wrong.append(f"{level} is {status.value}: {result.summary}")
    kind = f"{model} {status.value}" + (f" {level}" if status is Status.UNKNOWN else "")
    if not wrong:
        return None, kind
    shown = "\n".join(f"    {_line(o)}" for o in history)
    return f"{number} ({model}): {'; '.join(wrong)}\n{shown}", kind


_BY_ORDER = [n for n in FORBIDDEN if n.endswith(("serializable", "snapshot-isolation"))] + [
    "repeatable-read"
]


def _repeats(history: Sequence[Operation]) -> bool:
    writes = Counter((s[1], s[2]) for o in history for s in o.input if s[0] == "w")
    return any(count > 1 for count in writes.values())


def _line(o: Operation) -> str:
    end = None if o.type is INFO else o.complete_ns
    steps = o.output if o.type is OK else o.input
    return f"process {o.process} ({o.invoke_ns}, {end}) {o.type.name} {steps}"


def judged(first: int, count: int) -> tuple[list[str], Counter[str]]:
    """Judge histories `first`, `first + 1`, ..."""
    complaints: list[str] = []
    kinds = Counter[str]()
    for number in range(first, first + count):
        wrong, kind = complaint(number)
        kinds[kind] += 1
        complaints += [] if wrong is None else [wrong]
    return complaints, kinds


def main(arguments: Sequence[str] | None = None) -> Iterator[str]:
    """Yield every disagreement, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    options = parser.parse_args(arguments)
    starts = range(options.first, options.first + options.histories, PIECE)
    sizes = [min(PIECE, options.first + options.histories - start) for start in starts]
    kinds, wrong = Counter[str](), 0
    with ProcessPoolExecutor(options.processes) as pool:
        for complaints, some in pool.map(judged, starts, sizes):
            kinds.update(some)
            wrong += len(complaints)
            yield from complaints[:3]
    for kind, count in sorted(kinds.items()):
        yield f"{kind:60} {count}"
    yield f"{kinds.total()} histories: {wrong} disagreements"
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    for text in main():
        print(text, flush=True)  # noqa: T201  (the figures are what it is run for)
