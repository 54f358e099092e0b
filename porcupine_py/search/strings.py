"""Strings whose parts are known, as a register with compare-and-set: what `chains` judges.

Where every string that was got can be taken apart in one way (`models.parts`), into what
was put and what was appended once each, an append that gets show stands directly behind the string
that they show before it, as a compare-and-set from that string to the longer one does. An append
that nobody saw can stand only where no get shows what follows before the next put: it is a write of
a value that nobody reads. What shows where an append stands is a get, which belongs to the proof
where the append does. So the register has an order exactly when the string has, and it is the
same one. Histories of which a search has no answer (fifty clients on one key) take milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from porcupine_py.models import KeyValue
from porcupine_py.models.parts import Parts
from porcupine_py.operations import EventType, Operation
from porcupine_py.search import chains
from porcupine_py.search.clusters import Found, Judged
from porcupine_py.search.encoding import CAS, READ, WRITE, Encoded


def judge(kept: Sequence[Operation], model: KeyValue) -> Judged | None:
    """Judge the relevant operations of one key; None where the parts of a string are not known.

    None, too, where a get shows what is no text: a keyword of EDN, say, which Python takes for one.

    `model` was prepared for them.
    """
    parts = model.parts
    odd = any(o.output is not None and type(o.output) is not str for o in kept if o.f == "get")
    if parts is None or odd:
        return None
    encoded, values = _encode(kept, parts, model.initial)
    gets = {o.output: row for row, o in enumerate(kept) if o.f == "get"}
    if parts.torn is not None:
        rows = sorted({gets[text] for text in parts.torn})
        return Judged(encoded, {0: Found("torn-append", tuple(rows))})
    judged = chains.judge(encoded, values)
    if judged is not None and judged.wrong:
        found = judged.wrong[0]
        steps = [parts.steps[kept[row].input] for row in found.rows if encoded.code[row] == CAS]
        rows = sorted({*found.rows, *(gets[parts.shown_by[after]] for _, after in steps)})
        judged.wrong[0] = replace(found, rows=tuple(rows))
    return judged


def _encode(kept: Sequence[Operation], parts: Parts, first: str) -> tuple[Encoded, int]:
    """Return the register's operations, and how many values there are."""
    numbers = count(len(parts.first))
    nobody, initial = next(numbers), parts.begins.get(first)
    rows = []
    for o in kept:
        if o.f == "get":
            rows.append((READ, parts.strings.get(o.output, nobody), nobody))
        elif o.f == "append" and o.input in parts.steps:
            rows.append((CAS, *parts.steps[o.input]))
        else:
            begun = parts.begins.get(o.input) if o.f == "put" else None
            rows.append((WRITE, nobody, next(numbers) if begun is None else begun))
    code, a, b = np.array(rows, np.int64).reshape(-1, 3).T
    times = np.array([(o.invoke_ns, o.complete_ns) for o in kept], np.int64).reshape(-1, 2)
    encoded = Encoded(
        np.arange(len(kept)),
        np.array([0, len(kept)], np.int64),
        *(code.astype(np.int8), a, b),
        np.array([o.type is EventType.INFO for o in kept], np.bool_),
        times[:, 0],
        times[:, 1],
        next(numbers) if initial is None else initial,
        np.empty(0, np.int64),
    )
    return encoded, next(numbers)
