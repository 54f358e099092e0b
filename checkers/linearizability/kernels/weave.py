"""The order that a frontier has found: its placements, and what they met on the way."""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.antichain import NODE
from checkers.linearizability.kernels.compiled import NOT, READ, WRITE, jit


@jit
def placements(pools):
    """Return (operations, events) that led to the first row, in order."""
    nodes = pools[3]
    count = 0
    at = pools[0][0, NODE]
    while at >= 0:
        count += 1
        at = nodes[at, 0]
    placed, events = np.empty(count, np.int64), np.empty(count, np.int64)
    at = pools[0][0, NODE]
    while at >= 0:
        count -= 1
        placed[count], events[count] = nodes[at, 1], nodes[at, 2]
        at = nodes[at, 0]
    return placed, events


@jit
def _until(events, rank):
    """Count events up to a rank; they are in order."""
    low, high = 0, len(events)
    while low < high:
        middle = (low + high) // 2
        if events[middle] <= rank:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def weave(code, a, b, info, fixed, placed, events, initial):
    """Return the whole order: the placements, and between them what they met on the way.

    Gap g lies after placement g (gap 0 before the first); it is open from the event of placement g
    to that of the next. An open read goes to the first gap with a state that meets it, a write to
    the first one before another write, or in which its value is there anyway. Empty when some
    operation has no gap, which would be a fault of the frontier.
    """
    call, ret = fixed[0], fixed[1]
    n = len(code)
    m = len(placed)
    state = np.empty(m + 1, np.int64)
    state[0] = initial
    gap = np.full(n, -1, np.int64)
    for g in range(m):
        state[g + 1] = b[placed[g]]
        gap[placed[g]] = -2
    total = m
    for i in range(n):
        if info[i] or gap[i] == -2:
            continue
        low, high = _until(events, call[i]), _until(events, ret[i])
        for g in range(low, high + 1):
            met = (code[i] == READ and state[g] == a[i]) or (code[i] == NOT and state[g] != a[i])
            if met or (code[i] == WRITE and state[g] == b[i]):
                gap[i] = 2 * g
                break
            if code[i] == WRITE and g < high and code[placed[g]] == WRITE:
                gap[i] = 2 * g + 1
                break
        if gap[i] < 0:
            return np.empty(0, np.int64)
        total += 1
    starts = np.zeros(2 * m + 4, np.int64)
    for i in range(n):
        if gap[i] >= 0:
            starts[gap[i] + 1] += 1
    for g in range(m):  # each placement stands at the end of its gap
        starts[2 * g + 2] += 1
    for g in range(2 * m + 3):
        starts[g + 1] += starts[g]
    order = np.empty(total, np.int64)
    for i in range(n):
        if gap[i] >= 0:
            order[starts[gap[i]]] = i
            starts[gap[i]] += 1
    for g in range(m):
        order[starts[2 * g + 1]] = placed[g]
    return order
