"""Rows of `kernels.frontier`: which dominates which, and pools that grow and shrink.

A row is a configuration: state, node of the log of placements, a mark, masks of owed and of spent
slots, and how many indeterminate operations of each class were spent.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.compiled import jit

BITS = 63
"""Slots in a word of a mask."""
STATE, NODE, IDLE, MASKS = 0, 1, 2, 3
"""Columns of a row; the words of masks begin at the last."""


@jit
def dominates(row, other, words):
    """Return whether whatever `other` can still do, `row` can (same state)."""
    for j in range(MASKS, MASKS + 2 * words):
        if row[j] & ~other[j] != 0:
            return False
    for j in range(MASKS + 2 * words, len(row)):  # noqa: SIM110  (Numba compiles loops)
        if row[j] > other[j]:
            return False
    return True


@jit
def add(pool, count, link, heads, row, words):
    """Add a row to an antichain unless another dominates it; unlink those that it dominates.

    Returns the new count; a dropped row leaves it as it is. `pool` has room for one more.
    """
    state = row[STATE]
    before = -1
    at = heads[state]
    while at >= 0:
        if dominates(pool[at], row, words):
            return count
        following = link[at]
        if dominates(row, pool[at], words):
            if before < 0:
                heads[state] = following
            else:
                link[before] = following
            link[at] = -2  # dead
        else:
            before = at
        at = following
    for j in range(len(row)):
        pool[count, j] = row[j]
    link[count] = heads[state]
    heads[state] = count
    return count + 1


@jit
def room(pool):
    """Return a pool with twice as many rows."""
    bigger = np.empty((2 * len(pool), pool.shape[1]), pool.dtype)
    for r in range(len(pool)):
        for j in range(pool.shape[1]):
            bigger[r, j] = pool[r, j]
    return bigger


@jit
def longer(link):
    """Return an array with twice as many places."""
    bigger = np.empty(2 * len(link), np.int64)
    for r in range(len(link)):
        bigger[r] = link[r]
    return bigger


@jit
def compact(rows, count, nodes, used):
    """Forget placements that no row rests on; parents stand before children."""
    place = np.zeros(used, np.int32)
    for r in range(count):
        if rows[r, NODE] >= 0:
            place[rows[r, NODE]] = 1
    for j in range(used - 1, -1, -1):
        if place[j] and nodes[j, 0] >= 0:
            place[nodes[j, 0]] = 1
    kept = 0
    for j in range(used):
        if place[j]:
            parent = nodes[j, 0]
            nodes[kept, 1], nodes[kept, 2] = nodes[j, 1], nodes[j, 2]
            nodes[kept, 0] = place[parent] if parent >= 0 else -1
            place[j] = kept
            kept += 1
    for r in range(count):
        if rows[r, NODE] >= 0:
            rows[r, NODE] = place[rows[r, NODE]]
    return kept


@jit
def narrow(rows, count, width_max, words):
    """Keep the `width_max` rows that owe and spent least; equal ones in their order."""
    cost = np.zeros(count, np.int64)
    for r in range(count):
        for j in range(MASKS, MASKS + 2 * words):
            bits = rows[r, j]
            while bits:
                bits &= bits - 1
                cost[r] += 1
        for j in range(MASKS + 2 * words, rows.shape[1]):
            cost[r] += rows[r, j]
    how_many = np.zeros(np.max(cost) + 1, np.int64)
    for r in range(count):
        how_many[cost[r]] += 1
    most, below = 0, 0
    while below + how_many[most] <= width_max:
        below += how_many[most]
        most += 1
    kept = 0
    for r in range(count):
        if cost[r] < most or (cost[r] == most and below < width_max):
            below += cost[r] == most
            for j in range(rows.shape[1]):
                rows[kept, j] = rows[r, j]
            kept += 1
