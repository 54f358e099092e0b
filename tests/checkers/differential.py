"""The checkers against brute force, on as many small histories as there is time for.

    python -m tests.checkers.differential --histories 1000000 --processes 2

Each model gets the same number of histories: half from correct systems, right, bent and wild
(`tests.checkers.histories`), half with any results at all (`tests.checkers.wild`). Each is judged
by brute force over every order (`tests.checkers.oracle`), which shares nothing with the checkers,
by `check`, alone and in columns, and by the verifier's own walk through all of it. A disagreement
is an error, and so is UNKNOWN: no history here has more than `SIZE_MAX` operations. History n of a kind is the same on every machine.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random

from checkers.history import Operation
from checkers.history.columns import from_operations
from checkers.linearizability.columnar import judge_columns
from checkers.linearizability.encoding import encodable
from checkers.linearizability.linearizable import judge, verify
from checkers.linearizability.walk import impossible
from checkers.models import model_named, relevant
from tests.checkers import (
    more_worlds,
    oracle,  # the first of the two adds its specifications to the second's
)
from tests.checkers.histories import FIRST_WORLDS, WORLDS, op, random_history
from tests.checkers.wild import KINDS, wild_history

SIZE_MAX = 8
INITIAL = {"accounts": dict(more_worlds.AccountsWorld.state)}
"""Model -> what is there first, where that has to be given."""

SYSTEMS = {
    **{kind: (WORLDS[kind], kind.removeprefix("unique-")) for kind in FIRST_WORLDS},
    **{f"unique-{kind}": (world, kind) for kind, world in more_worlds.RULED.items()},
    **{
        kind: (world, kind.removeprefix("idle-").removeprefix("decremented-"))
        for kind, world in more_worlds.SEARCHED.items()
    },
}
"""Name -> a correct system, and the model that judges it."""
WILD = {name: name for name in KINDS} | {
    f"unique-{name}": name
    for name in KINDS
    if name not in ("accounts", "mutex", "topics", "unique-ids")
}


def kinds() -> list[tuple[str, str]]:
    """Every (source, kind), the source `system` or `wild`."""
    return [("system", name) for name in SYSTEMS] + [("wild", name) for name in WILD]


def drawn(source: str, kind: str, number: int) -> tuple[list[Operation], str]:
    """Return history `number` of a kind, and the name of its model."""
    rnd = Random(f"{source}-{kind}-{number}")
    if source == "wild":
        return wild_history(rnd, kind, rnd.randint(1, SIZE_MAX)), WILD[kind]
    world, model = SYSTEMS[kind]
    operations, right = random_history(rnd, world, size_max=rnd.randint(1, SIZE_MAX))
    assert not right or oracle.is_linearizable(operations, model), "generator and oracle disagree"
    return operations, model


def complaint(source: str, kind: str, number: int) -> tuple[str | None, str]:
    """Judge a history by both; returns (what differs, the true verdict)."""
    operations, name = drawn(source, kind, number)
    truth = "PASS" if oracle.is_linearizable(operations, name) else "FAIL"
    model = model_named(name, INITIAL.get(name))
    result = judge(operations, model)
    found = [(f"by {result.algorithm}", result.status.value, result.summary)]
    refused = verify(operations, model, result)
    if refused is not None:
        found.append(("the certificate", "refused", refused))
    prepared = model.prepare(operations)
    none = impossible(relevant(operations, prepared), prepared, [prepared.init()])
    found.append(("the verifier", "FAIL" if none else "PASS", "goes through all of it"))
    if encodable(model) and operations:
        (columns,) = judge_columns(from_operations(operations), model)
        found.append((f"in columns, by {columns.algorithm}", columns.status.value, columns.summary))
    wrong = [f"{who}: {status}: {why}" for who, status, why in found if status != truth]
    shown = "".join(f"\n    {line(operation)}" for operation in operations)
    place = f"{source} {kind} {number}: the truth is {truth}"
    return (f"{place}; {'; '.join(wrong)}{shown}" if wrong else None), truth


def line(o: Operation) -> str:
    """Show an operation as the call of a test that makes it."""
    end = None if o.type is o.type.INFO else o.complete_ns
    error = "" if o.error is None else f", error={o.error!r}"
    times = f"({o.invoke_ns}, {end}), input={o.input!r}, output={o.output!r}"
    return f"{op.__name__}({o.index}, {o.f!r}, {times}, type={o.type.name}{error})"


def judged(each: int, first: int, place: tuple[str, str]) -> tuple[list[str], Counter[str]]:
    """Judge histories `first`, `first + 1`, ... of a kind."""
    complaints, truths = [], Counter[str]()
    for number in range(first, first + each):
        wrong, truth = complaint(*place, number)
        truths[truth] += 1
        complaints += [] if wrong is None else [wrong]
    return complaints, truths


def main() -> Iterator[str]:
    """Yield lines of the table, and every disagreement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--histories", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    options = parser.parse_args()
    each = -(-options.histories // len(kinds()))
    total, wrong = Counter[str](), 0
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(partial(judged, each, options.first), kinds())
        for (source, kind), (complaints, truths) in zip(kinds(), results, strict=True):
            yield f"{source:6} {kind:22} {dict(sorted(truths.items()))}"
            yield from complaints[:5]
            total += truths
            wrong += len(complaints)
    yield f"{total.total()} histories, {dict(sorted(total.items()))}: {wrong} disagreements"
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    for text in main():
        print(text, flush=True)  # noqa: T201  (the table is what it is run for)
