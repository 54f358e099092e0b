"""Loops behind the rules in columns that NumPy has no words for; theory in `linearizability.rules`.

Nothing here is believed: whatever order comes out is verified (`linearizability.replay_types`).
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.compiled import jit

MOVES_EACH, FAR = 96, 4_096
"""Moves for each element, and of one, beyond which insertion is not the right way to sort."""


@jit
def nearly_sorted(keys):
    """Return the stable order of keys that are nearly sorted; an empty array when they are not."""
    count = len(keys)
    order = np.empty(count, np.int64)
    ordered = np.empty(count, np.int64)
    moves = 0
    for i in range(count):
        key = keys[i]
        j = i
        while j > 0 and ordered[j - 1] > key:
            ordered[j] = ordered[j - 1]
            order[j] = order[j - 1]
            j -= 1
            if i - j > FAR:
                return np.empty(0, np.int64)
        ordered[j] = key
        order[j] = i
        moves += i - j
        if moves > MOVES_EACH * (i + 1000):
            return np.empty(0, np.int64)
    return order


@jit
def fifo(into_from, into_by, out_from, out_by, by_into, into_ends, by_out, out_ends):
    """Sort values so that none precedes one that it must follow; shorter when there is no such way.

    The last four: the orders of the first four.
    """
    count = len(into_from)
    free = np.zeros(count, np.int8)
    done = np.zeros(count, np.bool_)
    order = np.empty(count, np.int64)
    placed = next_into = next_out = first_into = first_out = 0
    while placed < count:
        while done[into_ends[first_into]]:
            first_into += 1
        while done[out_ends[first_out]]:
            first_out += 1
        latest_into = into_by[into_ends[first_into]]
        latest_out = out_by[out_ends[first_out]]
        before = placed
        while next_into < count and into_from[by_into[next_into]] <= latest_into:
            i = by_into[next_into]
            next_into += 1
            free[i] += 1
            if free[i] == 2:
                order[placed] = i
                placed += 1
        while next_out < count and out_from[by_out[next_out]] <= latest_out:
            i = by_out[next_out]
            next_out += 1
            free[i] += 1
            if free[i] == 2:
                order[placed] = i
                placed += 1
        if placed == before:
            break
        for k in range(before, placed):
            done[order[k]] = True
    return order[:placed]


@jit
def merged(into_ns, into_segment, empty, out_ns, out_segment):
    """Return where what goes in (or found nothing), and what comes out, stand in one sequence.

    Both are sorted by (time, segment). What goes in stands before what comes out then, and what
    found nothing behind.
    """
    at_into = np.empty(len(into_ns), np.int64)
    at_out = np.empty(len(out_ns), np.int64)
    i = j = 0
    while i < len(into_ns) or j < len(out_ns):
        if j == len(out_ns):
            first = True
        elif i == len(into_ns):
            first = False
        elif into_ns[i] != out_ns[j]:
            first = into_ns[i] < out_ns[j]
        elif into_segment[i] != out_segment[j]:
            first = into_segment[i] < out_segment[j]
        else:
            first = not empty[i]
        if first:
            at_into[i] = i + j
            i += 1
        else:
            at_out[j] = i + j
            j += 1
    return at_into, at_out


@jit
def places(due, released, wanted):
    """Fill the places before reads with additions, the most urgent first (Jackson 1955).

    `due`: for each addition, in order of invocation, the first read that it must precede;
    `released`: for each read how many additions may stand before it; `wanted`: how many must.
    Returns (order of the additions, how many of them have a place); -1 when there is no way.
    """
    count = len(due)
    order = np.empty(count, np.int64)
    heap = np.empty(count + 1, np.int64)  # due * count + addition
    size = taken = known = 0
    for i in range(len(released)):
        while known < released[i]:
            at = size
            size += 1
            key = due[known] * count + known
            while at > 0 and heap[(at - 1) // 2] > key:
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = key
            known += 1
        while taken < wanted[i]:
            if size == 0 or heap[0] // count < i:
                return order, -1
            order[taken] = heap[0] % count
            taken += 1
            size -= 1
            key = heap[size]
            at = 0
            while 2 * at + 1 < size:
                child = 2 * at + 1
                if child + 1 < size and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= key:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = key
        if wanted[i] < taken or (size and heap[0] // count <= i):
            return order, -1
    return order, taken


@jit
def nested(into_from, begin, end, out_by, points):
    """Nest values in words `push x, word, pop x`; see `linearizability.rules.stack` for the theory.

    Values are surely inside strictly between `begin` and `end`, small numbers below `points`, and
    stand in order of `begin`; `into_from` and `out_by` on the same scale. Points at which nothing
    is surely inside split the values; a value at the bottom of a part goes away, which uncovers
    more points. A tree over the points keeps how many values cover each.

    Returns values in the order of the word: i for its push, count + i for its pop; shorter when a
    part has no bottom, or when looking for one takes too long.
    """
    count = len(begin)
    size = 1
    while size < points:
        size *= 2
    lowest = np.zeros(2 * size, np.int32)  # of a subtree, without what `added` says above it
    added = np.zeros(2 * size, np.int32)
    change = np.zeros(points + 1, np.int32)
    for i in range(count):
        if begin[i] + 1 < end[i]:
            change[begin[i] + 1] += 1
            change[end[i]] -= 1
    covering = 0
    for k in range(size):
        if k < points:
            covering += change[k]
        lowest[size + k] = covering if k < points and covering > 0 else _NEVER
    for node in range(size - 1, 0, -1):
        lowest[node] = min(lowest[2 * node], lowest[2 * node + 1])
    start = np.searchsorted(begin, np.arange(points + 1))  # first value that begins there or later
    following = np.arange(count + 1)  # the next value that is left, by path halving
    earliest = np.empty(count + 1, np.int64)  # into_from of this and all later ones
    earliest[count] = np.int64(1) << 60
    for i in range(count - 1, -1, -1):
        earliest[i] = min(earliest[i + 1], into_from[i])
    order = np.empty(2 * count, np.int64)
    written = 0
    budget = _LOOKS_EACH * (count + 1_000)
    todo = np.empty((1024, 2), np.int64)  # (first point, last point), or (-1, value to come out)
    waiting = 0
    # The parts at the beginning: between points that nothing covers, from the right to the left.
    right = points - 1
    for k in range(points - 2, -1, -1):
        if lowest[size + k] == _NEVER:
            todo = _room(todo, waiting)
            todo[waiting, 0], todo[waiting, 1] = k, right
            waiting += 1
            right = k
    cuts = np.empty(1024, np.int64)
    while waiting:
        waiting -= 1
        low, high = todo[waiting, 0], todo[waiting, 1]
        if low < 0:
            order[written] = count + high
            written += 1
            continue
        # A value that lies below all others of the part.
        i = start[low]
        bottom = -1
        empty = True
        while True:
            while i < count and following[i] != i:
                following[i] = following[following[i]]
                i = following[i]
            if i >= count or begin[i] >= high:
                break
            empty = False
            if earliest[i] > low or budget < 0:
                break
            budget -= 1
            if into_from[i] <= low and out_by[i] >= high:
                bottom = i
                break
            i += 1
        if empty:
            continue
        if bottom < 0:
            return order[:written]
        following[bottom] = bottom + 1
        order[written] = bottom
        written += 1
        todo = _room(todo, waiting)
        todo[waiting, 0], todo[waiting, 1] = -1, bottom
        waiting += 1
        found = 0
        if begin[bottom] + 1 < end[bottom]:
            _lower(lowest, added, size, begin[bottom] + 1, end[bottom] - 1)
            while lowest[1] == 0:
                node = 1
                while node < size:
                    down = added[node]
                    if down != 0:
                        for child in (2 * node, 2 * node + 1):
                            lowest[child] += down
                            added[child] += down
                        added[node] = 0
                    node = 2 * node if lowest[2 * node] == 0 else 2 * node + 1
                if found == len(cuts):
                    longer = np.empty(2 * len(cuts), np.int64)
                    longer[:found] = cuts
                    cuts = longer
                cuts[found] = node - size
                found += 1
                lowest[node] = _NEVER
                node //= 2
                while node:
                    lowest[node] = min(lowest[2 * node], lowest[2 * node + 1])
                    node //= 2
        right = high
        for k in range(found - 1, -1, -1):
            todo = _room(todo, waiting)
            todo[waiting, 0], todo[waiting, 1] = cuts[k], right
            waiting += 1
            right = cuts[k]
        todo = _room(todo, waiting)
        todo[waiting, 0], todo[waiting, 1] = low, right
        waiting += 1
    return order[:written]


_NEVER = 1 << 30
"""Covered for ever: a point that split already."""
_LOOKS_EACH = 400
"""Values looked at for a bottom, for each value."""


@jit
def _room(todo, used):
    if used < len(todo):
        return todo
    bigger = np.empty((2 * len(todo), 2), np.int64)
    bigger[:used] = todo
    return bigger


@jit
def _lower(lowest, added, size, low, high):
    """Take one from all points from `low` to `high`, in a tree without recursion."""
    left, right = low + size, high + size
    first, last = left, right
    while left <= right:
        if left & 1:
            lowest[left] -= 1
            added[left] -= 1
            left += 1
        if not right & 1:
            lowest[right] -= 1
            added[right] -= 1
            right -= 1
        left //= 2
        right //= 2
    for leaf in (first, last):
        node = leaf // 2
        while node:
            lowest[node] = min(lowest[2 * node], lowest[2 * node + 1]) + added[node]
            node //= 2
