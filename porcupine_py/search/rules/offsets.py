"""For every model: the order of the servers' offsets, verified rather than trusted.

Where the server says at which offset it put each write (or the nodes' logs say it,
`evidence.assisted`), the order of the writes is known. It is replayed through the model; each
operation without effect stands at the earliest place at which it is legal and that real time
allows. If all find their place, this is a linearization, whatever the offsets were worth: PASS.
Otherwise the offsets, or the earliest places, may have been the wrong choice, and nothing is
claimed: None.

The earliest place is never worse than a later one: an operation without effect only pushes up those
invoked after it completed. Complexity: O(n log n + n c), c the most writes concurrent with an
operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from porcupine_py.models.base import Model, State
from porcupine_py.operations import EventType, Operation
from porcupine_py.search.outcome import Outcome
from porcupine_py.search.rules.ladder import inversion, pass_outcome


def judge(operations: Sequence[Operation], model: Model) -> Outcome | None:
    """PASS when the offsets order the writes and everything else fits in; else None."""
    writes = [o for o in operations if model.has_effect(o)]
    known = [o for o in writes if o.offset is not None]
    if not known or any(o.offset is None and o.type is not EventType.INFO for o in writes):
        return None
    known.sort(key=lambda o: (o.offset, o.index))
    if len({o.offset for o in known}) < len(known) or inversion(known) is not None:
        return None
    states = [model.init()]
    for write in known:
        legal, after = model.step(states[-1], write)
        if not legal:
            return None
        states.append(after)
    placed = _place([o for o in operations if not model.has_effect(o)], known, states, model)
    if placed is None:
        return None
    order = [operation for gap in placed for operation in gap]
    return pass_outcome(order, f"{len(known)} writes in the order of their offsets")


def _place(
    reads: Sequence[Operation], writes: Sequence[Operation], states: Sequence[State], model: Model
) -> list[list[Operation]] | None:
    """Return, for each state, the write that led to it and the reads in it."""
    gaps: list[list[Operation]] = [[], *([write] for write in writes)]
    done = sorted((write.complete_ns, place) for place, write in enumerate(writes, 1))
    last_begun = list(accumulate((write.invoke_ns for write in writes), max))
    open_reads: list[tuple[int, int]] = []
    at_least = next_done = 0
    for read in sorted(reads, key=lambda o: (o.invoke_ns, o.index)):
        while next_done < len(done) and done[next_done][0] < read.invoke_ns:
            at_least = max(at_least, done[next_done][1])
            next_done += 1
        for complete_ns, place in open_reads:
            at_least = max(at_least, place) if complete_ns < read.invoke_ns else at_least
        open_reads = [entry for entry in open_reads if entry[0] >= read.invoke_ns]
        place = at_least
        while place < len(states):
            if place and last_begun[place - 1] > read.complete_ns:
                return None
            legal, after = model.step(states[place], read)
            if legal and model.equal(after, states[place]):
                break
            place += 1
        else:
            return None
        gaps[place].append(read)
        open_reads.append((read.complete_ns, place))
    return gaps
