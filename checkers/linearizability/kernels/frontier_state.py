"""What a frontier keeps in arrays, and how it looks before the first event."""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.antichain import BITS, MASKS, NODE, STATE
from checkers.linearizability.kernels.compiled import CAS, WRITE, classes, jit, lay_out, where

EVENT, CURRENT, DONE, WAITING, NEXT, TRUNCATED, NODES, EXPLORED, EXPANDING, FURTHEST, LIVE, SIZE = (
    range(12)
)


@jit
def begin(code, a, b, invoke, complete, info, states, values):
    """Return everything that a frontier needs, before its first event."""
    n = len(code)
    entries, call, ret = lay_out(invoke, complete, info)
    effects = where((code == WRITE) | (code == CAS))
    members, starts = classes(effects, code, a, b)
    class_count = len(starts) - 1
    class_of = np.full(n, -1, np.int32)
    counter = np.full(class_count, -1, np.int32)  # column that counts its spent indeterminate ones
    counters = 0
    for k in range(class_count):
        for place in range(starts[k], starts[k + 1]):
            class_of[members[place]] = k
            if info[members[place]] and counter[k] < 0:
                counter[k] = counters
                counters += 1
    hidden = where(info & ((code == WRITE) | (code == CAS)))
    spare = np.full(len(hidden) + 1, -1, np.int32)  # indeterminate operations, by counter
    first = np.zeros(counters + 1, np.int32)
    for i in hidden:
        first[counter[class_of[i]] + 1] += 1
    for j in range(counters):
        first[j + 1] += first[j]
    fill = first.copy()
    for i in hidden:
        spare[fill[counter[class_of[i]]]] = i
        fill[counter[class_of[i]]] += 1
    available = np.zeros(counters + 1, np.int32)
    heads = np.full(values, -1, np.int32)  # classes of cas from a state, linked by `after`
    after = np.full(class_count + 1, -1, np.int32)
    for k in range(class_count - 1, -1, -1):
        i = members[starts[k]]
        if code[i] == CAS:
            after[k] = heads[a[i]]
            heads[a[i]] = k
    open_max = 0
    open_now = 0
    for entry in entries:
        if entry >= n:
            open_now -= 1
        elif not info[entry]:
            open_now += 1
            open_max = max(open_max, open_now)
    words = open_max // BITS + 1
    width = MASKS + 2 * words + counters
    slot_of = np.full(n, -1, np.int32)
    holder = np.full(words * BITS, -1, np.int32)
    queue = np.full(class_count + 1, -1, np.int32)  # first open slot of a class, by return
    behind = np.full(words * BITS, -1, np.int32)
    reads = np.zeros((values, words), np.int64)
    writes = np.zeros((values, words), np.int64)
    nots = np.zeros((values, words), np.int64)
    every = np.zeros((2, words), np.int64)  # all open writes; all open refusals
    rows = np.zeros((max(64, len(states)), width), np.int64)
    for j in range(len(states)):
        rows[j, STATE] = states[j]
        rows[j, NODE] = -1
    control = np.zeros(SIZE, np.int64)
    control[CURRENT] = len(states)
    control[FURTHEST] = -1
    nodes = np.empty((1024, 3), np.int32)
    done = np.zeros((64, width), np.int64)
    waiting = np.zeros((64, width), np.int64)
    links = np.full((2, values), -1, np.int64)  # first row with a state, in done and waiting
    live = np.full((2, class_count + 1), -1, np.int32)  # write classes to try; where each stands
    fixed = (call, ret, class_of, counter, spare, first, heads, after, members, starts, entries)
    moving = (
        available,
        slot_of,
        holder,
        queue,
        behind,
        reads,
        writes,
        nots,
        every,
        links,
        control,
        live,
    )
    links_of = (np.empty(64, np.int64), np.empty(64, np.int64))
    return fixed, moving, (rows, done, waiting, nodes, links_of[0], links_of[1])
