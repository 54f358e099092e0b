"""Print how many cases of others are readable, agree and differ; see the package."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checkers import HistoryError, Status, check, check_by, transactions
from checkers.history.files import judged_of
from checkers.history.foreign import Reading, history_of
from checkers.registry import CheckSpec, find_check, reading_for
from checkers.run_input import RunInput
from checkers.transactions.levels import FORBIDDEN, level_key
from porcupine_py.columns import from_operations
from tests.foreign.clojure import Case, cases

KNOSSOS = {"cas-register": 0, "mutex": None}
"""Folder under data/, and the value that Knossos' own tests begin with."""
JEPSEN: dict[str, tuple[str, dict[str, Any]]] = {
    "counter": ("linearizable", {"model": "counter"}),
    "unique-ids": ("linearizable", {"model": "unique-ids"}),
    "queue": ("linearizable", {"model": "unordered-queue"}),
    "set": ("linearizable", {"model": "set"}),
    "set-full": ("set-full", {}),
}
"""Jepsen's checkers, and the check that is meant, or comes nearest."""
_CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2")
_G1 = ("G0", "G1a", "G1b", "G1c", "incompatible-order", "future-read", "dirty-update")
ASKED = {"G1": _G1, "G2": _CYCLES[2:], "internal": ("internal", "non-repeatable-read")}
"""What Elle looks for beside an anomaly itself when it is asked for it."""
KEYS = ("linearizable-keys?", "sequential-keys?", "wfr-keys?", "transaction-order")
"""Options of Elle that say what is known of versions."""
OPTIONS = frozenset({"consistency-models", "anomalies", "directory", *KEYS})
"""Options of Elle that mean something here."""

Result = tuple[str, str, str]
"""(agree, differ, unreadable, no counterpart or not evaluated; where; what)."""


def main(folder: Path) -> int:
    """Print the table; returns the exit code: 1 where a folder is missing."""
    parts = {
        "Knossos' data": (_clone(folder, "knossos"), _knossos),
        "Elle's unit tests, lists": (_clone(folder, "elle"), _elle_lists),
        "Elle's unit tests, registers": (_clone(folder, "elle"), _elle_registers),
        "Jepsen's unit tests of checkers": (_clone(folder, "jepsen"), _jepsen),
    }
    details: list[str] = []
    print("| cases | evaluated | readable | agree | differ | no such option here | not evaluated |")
    print("|---|---|---|---|---|---|---|")
    for name, (clone, judge_all) in parts.items():
        if clone is None:
            print(f"{name}: there is no clone of it in {folder}")
            return 1
        counts: Counter[str] = Counter()
        for verdict, place, what in judge_all(clone):
            counts[verdict] += 1
            if verdict not in ("agree", "not evaluated"):
                details.append(f"{verdict}: {name}, {place}: {what}")
        total = counts.total() - counts["not evaluated"]
        readable = total - counts["unreadable"]
        print(
            f"| {name} | {total} | {readable} | {counts['agree']} | {counts['differ']} "
            f"| {counts['no counterpart']} | {counts['not evaluated']} |",
            flush=True,
        )
    print()
    print("\n".join(details))
    return 0


def _clone(folder: Path, name: str) -> Path | None:
    found = [p for p in (folder / name, folder / "jepsen-io" / name) if p.is_dir()]
    return found[0] if found else None


def _knossos(clone: Path) -> Iterator[Result]:
    for name, initial in KNOSSOS.items():
        for path in sorted((clone / "data" / name).glob("*/*.edn")):
            place, good = f"{name}/{path.name}", path.parent.name == "good"
            try:
                result = check(path, name, initial=initial)
            except HistoryError as error:
                yield "unreadable", place, str(error)
                continue
            yield _compared(place, result.status, good, result.summary)


def _compared(place: str, status: Status, good: Any, summary: str) -> Result:
    if status is Status.UNDER_EXERCISED and good is not False:
        return "agree", place, summary  # nothing that shows anything: right for whoever says so
    if (status is Status.PASS) == bool(good) and status in (Status.PASS, Status.FAIL):
        return "agree", place, summary
    wanted = {True: "valid", False: "not valid"}.get(good, str(good))
    return "differ", place, f"{wanted} there, {status.value} here: {summary[:200]}"


def _elle_lists(clone: Path) -> Iterator[Result]:
    yield from _elle(clone / "test" / "elle" / "list_append_test.clj", "list-append")


def _elle_registers(clone: Path) -> Iterator[Result]:
    yield from _elle(clone / "test" / "elle" / "rw_register_test.clj", "rw-register")


def _elle(path: Path, model: str) -> Iterator[Result]:
    found, unknown = cases(path)
    for case in found:
        yield _transactions(case, model)
    yield from (("not evaluated", path.name, "") for _ in range(unknown))


def _transactions(case: Case, model: str) -> Result:
    options = case.judgement.options
    foreign = sorted(str(name) for name in options if name not in OPTIONS)
    if foreign:
        return "no counterpart", case.place, f"option {', '.join(foreign)}"
    levels = options.get("consistency-models", ["strict-serializable"])
    asked = [kind for name in options.get("anomalies") or [] for kind in ASKED.get(name, (name,))]
    if levels:
        level = level_key(str(levels[0]))
        if level not in FORBIDDEN:
            return "no counterpart", case.place, f"level {level}"
    else:
        level = "strict-serializable"
    try:
        operations = history_of(case.judgement.history).operations
    except HistoryError as error:
        return "unreadable", case.place, str(error)
    given = {"model": model, "consistency": level}
    given |= {k.rstrip("?").replace("-", "_"): options[k] for k in KEYS if k in options}
    result = transactions.check(RunInput([], operations), given)
    status = result.status
    if not levels and status is not Status.UNKNOWN:
        seen = set(result.statistics["anomalies_by_kind"]) & set(asked)
        status = Status.FAIL if seen else Status.PASS
    good = None if case.valid not in (True, False) else case.valid
    if good is None and status is not Status.FAIL:
        return "agree", case.place, "nothing follows from it, there and here"
    return _compared(case.place, status, good, result.summary)


def _jepsen(clone: Path) -> Iterator[Result]:
    found, unknown = cases(clone / "jepsen" / "test" / "jepsen" / "checker_test.clj")
    for case in found:
        name = str(next(iter((case.judgement.checker or {}).values()), ["?"])[0])
        if name not in JEPSEN:
            yield "no counterpart", case.place, f"checker {name}"
            continue
        try:
            history = history_of(case.judgement.history)
        except HistoryError as error:
            yield "unreadable", case.place, str(error)
            continue
        check_name, options = JEPSEN[name]
        reading = reading_for([find_check(CheckSpec(check_name, options))], Reading())
        columns = from_operations(history.operations)
        judged = judged_of(columns, reading, (), is_foreign=True, name=case.place).judged
        result = check_by(judged.operations(), check_name, options)
        yield _compared(f"{case.place} ({name})", result.status, case.valid, result.summary)
    yield from (("not evaluated", "checker_test.clj", "") for _ in range(unknown))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m tests.foreign FOLDER", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1])))
