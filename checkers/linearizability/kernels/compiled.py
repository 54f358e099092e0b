"""The decorator for kernels, and what all of them share.

Operations are integers: `code` one of READ, WRITE, ...; `a` what it needs the state to be, `b` what
it makes of it. States are integers as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

READ, WRITE, CAS, NOT, APPEND = 0, 1, 2, 3, 4
"""needs a | makes b | needs a, makes b | needs anything but a | appends to a hashed string."""

RUNNING, FOUND, NONE, MEMORY, DIED = 0, 1, 2, 3, 4
"""More to do | an order was found | there is none | out of memory | nothing left, but some were
thrown away."""

PRIME_1, PRIME_2 = 2**31 - 1, 2**31 - 19
LOW_BITS = 2**31 - 1
DEAD = -2
"""State of a string of which no read shows an extension."""


def jit(function: Function) -> Function:
    """Compile on first call; keep the result on disk where some folder is writable."""
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder for the cache
        return cast("Function", numba.njit(nogil=True)(function))


@jit
def mix(x):
    """Scatter an integer over 64 bits (splitmix64, Steele, Lea and Flood 2014)."""
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def step(code, a, b, state, viable):
    """Apply an operation: (legal, state after it).

    A string of which no read shows an extension is as good as any other such: DEAD.
    """
    if code == READ:
        return state == a, state
    if code == WRITE:
        return True, b
    if code == CAS:
        return state == a, b
    if code == NOT:
        return state != a, state
    # APPEND: two polynomial hashes, h(s + t) = h(s) * base ** len(t) + h(t), 31 bits each.
    high = ((state >> 31) * (b >> 31) + (a >> 31)) % PRIME_1
    low = ((state & LOW_BITS) * (b & LOW_BITS) + (a & LOW_BITS)) % PRIME_2
    after = (high << 31) | low
    if state == DEAD:
        return True, state
    mask = len(viable) - 1
    at = np.int64(mix(after)) & mask
    while viable[at] != -1:
        if viable[at] == after:
            return True, after
        at = (at + 1) & mask
    return True, np.int64(DEAD)


@jit
def table_of(hashes):
    """Return hashes as an open-addressed table of -1 and hashes; a power of two long."""
    slots = 2
    while slots < 2 * len(hashes):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    for value in hashes:
        at = np.int64(mix(value)) & (slots - 1)
        while table[at] != -1 and table[at] != value:
            at = (at + 1) & (slots - 1)
        table[at] = value
    return table


@jit
def lay_out(invoke, complete, info):
    """Put calls and returns in order of time, calls first at equal times (closed intervals).

    Returns (entries, call rank, return rank): entry i is the call of operation i, n + i its
    return; indeterminate operations have no return, their rank is the largest integer.
    """
    n = len(invoke)
    returns = np.empty(n, np.int32)
    count = 0
    moves = 0
    for i in range(n):
        if info[i]:
            continue
        j = count
        while j > 0 and complete[returns[j - 1]] > complete[i]:
            returns[j] = returns[j - 1]
            j -= 1
        returns[j] = i
        moves += count - j
        count += 1
        if moves > 300 * n + 1000:
            break
    if moves > 300 * n + 1000:  # completions far from order: Shell's sort does not mind
        count = 0
        for i in range(n):
            if not info[i]:
                returns[count] = i
                count += 1
        gap = count // 2
        while gap > 0:
            for k in range(gap, count):
                i = returns[k]
                j = k
                while j >= gap and complete[returns[j - gap]] > complete[i]:
                    returns[j] = returns[j - gap]
                    j -= gap
                returns[j] = i
            gap = 1 if gap == 2 else gap * 5 // 11
    entries = np.empty(n + count, np.int32)
    call = np.empty(n, np.int32)
    ret = np.full(n, 2**31 - 1, np.int32)
    i = j = rank = 0
    while i < n or j < count:
        if i < n and (j >= count or invoke[i] <= complete[returns[j]]):
            entries[rank] = i
            call[i] = rank
            i += 1
        else:
            entries[rank] = n + returns[j]
            ret[returns[j]] = rank
            j += 1
        rank += 1
    return entries, call, ret


@jit
def classes(chosen, code, a, b):
    """Group operations that would do the same, each group in order of invocation.

    `chosen`: positions in order of invocation. Returns (members, starts): class c holds
    `members[starts[c]:starts[c + 1]]`.
    """
    count = len(chosen)
    slots = 16
    while slots < 2 * count:
        slots *= 2
    table = np.full(slots, -1, np.int32)  # class, by hash
    class_of = np.empty(count, np.int32)
    model = np.empty(count, np.int32)  # the first member of each class
    starts = np.zeros(count + 2, np.int32)
    found = 0
    for k in range(count):
        i = chosen[k]
        hashed = mix(mix(mix(code[i]) ^ np.uint64(a[i])) ^ np.uint64(b[i]))
        at = np.int64(hashed & np.uint64(slots - 1))
        while table[at] >= 0:
            other = model[table[at]]
            if code[i] == code[other] and a[i] == a[other] and b[i] == b[other]:
                break
            at = (at + 1) & (slots - 1)
        if table[at] < 0:
            table[at] = found
            model[found] = i
            found += 1
        class_of[k] = table[at]
        starts[table[at] + 2] += 1
    for k in range(found):
        starts[k + 2] += starts[k + 1]
    members = np.empty(count, np.int32)
    for k in range(count):
        members[starts[class_of[k] + 1]] = chosen[k]
        starts[class_of[k] + 1] += 1
    return members, starts[: found + 1]


@jit
def where(chosen):
    """Return the positions of what is true."""
    count = 0
    for yes in chosen:
        count += yes
    positions = np.empty(count, np.int32)
    count = 0
    for i in range(len(chosen)):
        if chosen[i]:
            positions[count] = i
            count += 1
    return positions
