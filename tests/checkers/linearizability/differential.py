"""The checkers against brute force, on as many small histories as there is time for.

    python -m tests.checkers.linearizability.differential --histories 1000000 --processes 2 --state differential.jsonl

With `--state` every piece of work that is done is a line of that file, and what the file has is not
done again: the same command goes on where it was ended. `--only MODEL` takes the histories of one
model.

Each model gets the same number of histories: half from correct systems, right, bent and wild
(`tests.checkers.histories`), half with any results at all (`tests.checkers.history.wild`). Each is judged
by brute force over every order (`tests.checkers.linearizability.oracle`), which shares nothing with the checkers,
by `check`, alone and in columns, and by the verifier's own walk through all of it. A disagreement
is an error, and so is UNKNOWN: no history here has more than `SIZE_MAX` operations. What is too much
for the verifier's walk (rare: all eight operations at once) is counted apart. History n of a kind is the same on every machine.
"""

import argparse
import contextlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from checkers.history import Operation
from checkers.linearizability.columnar import judge_columns
from checkers.linearizability.linearizable import judge
from porcupine_py.columns import from_operations
from porcupine_py.models import model_named, relevant
from porcupine_py.search.encoding import encodable
from porcupine_py.search.walk import RefusedError, dead_end
from tests.checkers.histories import FIRST_WORLDS, WORLDS, op, random_history, verify
from tests.checkers.history.wild import KINDS, wild_history
from tests.checkers.invariants import (
    more_worlds,  # the first of the two adds its specifications to the second's
)
from tests.checkers.linearizability import (
    oracle,  # the first of the two adds its specifications to the second's
)

SIZE_MAX = 8
PIECE = 500
"""Histories of one kind that are one piece of work, a quarter of a second of it."""

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
    f"unique-{name}": name for name in KINDS if name not in ("mutex", "topics", "unique-ids")
}


def kinds() -> list[tuple[str, str]]:
    """Every (source, kind), the source `system` or `wild`."""
    return [("system", name) for name in SYSTEMS] + [("wild", name) for name in WILD]


def drawn(source: str, kind: str, number: int) -> tuple[list[Operation], str, bool]:
    """Return history `number` of a kind, the name of its model, and whether it is surely right."""
    rnd = Random(f"{source}-{kind}-{number}")
    if source == "wild":
        return wild_history(rnd, kind, rnd.randint(1, SIZE_MAX)), WILD[kind], False
    world, model = SYSTEMS[kind]
    operations, right = random_history(rnd, world, size_max=rnd.randint(1, SIZE_MAX))
    return operations, model, right


def complaint(source: str, kind: str, number: int) -> tuple[str | None, str]:
    """Judge a history by both; returns (what differs, the truth as it is counted)."""
    operations, name, right = drawn(source, kind, number)
    truth = "PASS" if oracle.is_linearizable(operations, name) else "FAIL"
    assert truth == "PASS" or not right, "generator and oracle disagree"
    model = model_named(name)
    result = judge(operations, model)
    found = [(f"by {result.algorithm}", result.status.value, result.summary)]
    refused = verify(operations, model, result)
    if refused is not None:
        found.append(("the certificate", "refused", refused))
    prepared = model.prepare(operations)
    walked = True
    try:
        none = dead_end(relevant(operations, prepared), prepared, [prepared.init()]) is not None
        found.append(("the verifier", "FAIL" if none else "PASS", "goes through all of it"))
    except RefusedError:
        walked = False
    if encodable(model) and operations:
        (columns,) = judge_columns(from_operations(operations), model)
        found.append((f"in columns, by {columns.algorithm}", columns.status.value, columns.summary))
    wrong = [f"{who}: {status}: {why}" for who, status, why in found if status != truth]
    shown = "".join(f"\n    {line(operation)}" for operation in operations)
    place = f"{source} {kind} {number}: the truth is {truth}"
    counted = truth if walked else f"{truth}, too much for the verifier's walk"
    return (f"{place}; {'; '.join(wrong)}{shown}" if wrong else None), counted


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


@dataclass(frozen=True)
class Piece:
    """Histories `first`, `first + 1`, ... of a kind."""

    source: str
    kind: str
    first: int
    count: int


@dataclass(frozen=True)
class Done:
    """What came of a piece of work."""

    piece: Piece
    truths: Mapping[str, int]
    complaints: Sequence[str]
    cpu_s: float


def do(piece: Piece) -> Done:
    """Judge the histories of a piece."""
    began_s = time.process_time()
    complaints, truths = judged(piece.count, piece.first, (piece.source, piece.kind))
    return Done(piece, dict(truths), complaints, time.process_time() - began_s)


def pieces(histories: int, first: int, only: str | None) -> list[Piece]:
    """Cut the work into pieces, of each kind the same number of histories."""
    models = {("system", k): model for k, (_, model) in SYSTEMS.items()}
    models |= {("wild", kind): model for kind, model in WILD.items()}
    chosen = [place for place in kinds() if only in (None, models[place])]
    each = -(-histories // len(chosen)) if chosen else 0
    return [
        Piece(*place, start, min(PIECE, first + each - start))
        for place in chosen
        for start in range(first, first + each, PIECE)
    ]


def stored(path: Path | None) -> dict[Piece, Done]:
    """Read what was done before; a line that a killed process left torn is no line."""
    found: dict[Piece, Done] = {}
    for line in path.read_text().split("\n")[:-1] if path is not None and path.exists() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            piece = Piece(**row.pop("piece"))
            found[piece] = Done(piece, **row)
    return found


def carry_out(wanted: Sequence[Piece], state: Path | None, processes: int) -> Iterator[Done]:
    """Yield what was done before and what is done now, which is stored as it is done."""
    before = stored(state)
    yield from (before[piece] for piece in wanted if piece in before)
    missing = [piece for piece in wanted if piece not in before]
    with ExitStack() as stack:
        file = None if state is None else stack.enter_context(state.open("a"))
        if file is not None and state is not None and state.read_text()[-1:] not in ("", "\n"):
            file.write("\n")
        pool = stack.enter_context(ProcessPoolExecutor(processes))
        for done in pool.map(do, missing):
            if file is not None:
                file.write(json.dumps(asdict(done)) + "\n")
                file.flush()
            yield done


def main(arguments: Sequence[str] | None = None) -> Iterator[str]:
    """Yield lines of the table, and every disagreement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--histories", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument("--only", metavar="MODEL", help="histories of one model")
    parser.add_argument("--state", type=Path, metavar="FILE", help="what is done, to go on from")
    options = parser.parse_args(arguments)
    wanted = pieces(options.histories, options.first, options.only)
    if not wanted:
        parser.error(f"--only {options.only}: no such model")
    truths: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    wrong, cpu_s = 0, 0.0
    for done in carry_out(wanted, options.state, options.processes):
        truths[done.piece.source, done.piece.kind].update(done.truths)
        cpu_s += done.cpu_s
        wrong += len(done.complaints)
        yield from done.complaints[:5]
    for (source, kind), counts in sorted(truths.items()):
        yield f"{source:6} {kind:22} {dict(sorted(counts.items()))}"
    total = sum(truths.values(), Counter[str]())
    rate = total.total() / max(cpu_s, 1e-9)
    yield f"{total.total()} histories, {dict(sorted(total.items()))}: {wrong} disagreements"
    yield f"{cpu_s:.0f} s of processor time, {rate:.0f} histories a second"
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    for text in main():
        print(text, flush=True)  # noqa: T201  (the table is what it is run for)
