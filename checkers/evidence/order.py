"""Whether the log orders operations as time does.

An operation that was acknowledged before another was invoked stands before it in the log, whatever
their keys are. No true run can break that, nor clocks of hosts, as both times are the harness's:

- What was acknowledged at offset a was committed, so that all below a was final, before the other
  one was invoked. Its record is made after that, and so stands above a in every log that has a.
- *Indeterminate* operations have no time by which they were done, but cannot be done before they
  were invoked: they are judged as the later of two only. So is a refused one with a record, which
  `effects` accuses anyway.
- *Repeated* requests would leave several records: then the first counts where an operation is the
  earlier of two, the last where it is the later.
- A *linearizable read* is answered from the state at an offset that is committed, and that is no
  lower than what was committed when it arrived. It may share its offset with other reads, and with
  a write before it.
- An operation whose offset nothing says (a write that changed nothing, a record that a snapshot
  replaced) is not judged, nor is one whose answer repeats what an earlier one did.

Complexity: O(n log n).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.evidence.effects import Places
from checkers.history import seconds
from checkers.verdict import Anomaly, anomaly
from porcupine_py.columns import OK, Bools, Columns

OUT_OF_ORDER = "out-of-order"
SHOWN_MAX = 10


def out_of_order(operations: Columns, places: Places, reads: Bools) -> Iterator[Anomaly]:
    """Find operations that stand below others which were acknowledged before they were invoked.

    `reads`: of `places`, those that have no record of their own. A sample is yielded.
    """
    rows, first, last = places.rows, places.first, places.last
    done = np.flatnonzero(operations.type[rows] == OK)
    if not len(done):
        return
    done = done[np.argsort(operations.complete_ns[rows[done]], kind="stable")]
    highest = np.maximum.accumulate(first[done])
    before = np.searchsorted(
        operations.complete_ns[rows[done]], operations.invoke_ns[rows], side="left"
    )
    floor = np.where(before > 0, highest[np.maximum(before - 1, 0)], -1)
    wrong = np.flatnonzero((last < floor) | ((last == floor) & ~reads))
    for at in wrong[:SHOWN_MAX].tolist():
        place = done[int(np.argmax(highest >= floor[at]))]
        earlier, later = (operations.operation(int(rows[i])) for i in (place, at))
        text = (
            f"operation {earlier.index} ({earlier.f} of {earlier.key!r}), "
            f"acknowledged at {seconds(earlier.complete_ns)}, stands at offset {floor[at]}, and "
            f"operation {later.index} ({later.f} of {later.key!r}), invoked at "
            f"{seconds(later.invoke_ns)}, at offset {last[at]}"
        )
        yield anomaly(OUT_OF_ORDER, text, earlier, later, offset=int(last[at]))
