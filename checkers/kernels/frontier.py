"""The frontier of `checkers.frontier`, compiled: same theory, integers and bit masks.

A configuration is a row of integers: state, node of the log of placements, masks of owed and of
spent slots (63 slots a word), and how many indeterminate operations of each class were spent. A
slot is a place that an open operation holds from its call to its return.

`run` works in chunks and keeps everything in arrays, so that it goes on where it stopped. A width
bounds the frontier: of more configurations than that the best are kept. An order that is found is
an order, whatever was thrown away; that there is none is only said when nothing was.
"""

from __future__ import annotations

import numpy as np

from checkers.kernels.compiled import (
    CAS,
    DIED,
    FOUND,
    MEMORY,
    NONE,
    NOT,
    READ,
    RUNNING,
    WRITE,
    classes,
    jit,
    lay_out,
    where,
)

BITS = 63
EVENT, CURRENT, DONE, WAITING, NEXT, TRUNCATED, NODES, EXPLORED, EXPANDING, FURTHEST, LIVE, SIZE = (
    range(12)
)
_STATE, _NODE, _IDLE, _MASKS = 0, 1, 2, 3


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
    width = _MASKS + 2 * words + counters
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
        rows[j, _STATE] = states[j]
        rows[j, _NODE] = -1
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


@jit
def _dominates(one, other, words):
    """Tell whether whatever `other` can still do, `one` can (same state)."""
    for j in range(_MASKS, _MASKS + 2 * words):
        if one[j] & ~other[j] != 0:
            return False
    for j in range(_MASKS + 2 * words, len(one)):  # noqa: SIM110  (Numba compiles loops)
        if one[j] > other[j]:
            return False
    return True


@jit
def _add(pool, count, link, heads, row, words):
    """Add a row to an antichain unless another dominates it; unlink those that it dominates.

    Returns the new count; a dropped row leaves it as it is. `pool` has room for one more.
    """
    state = row[_STATE]
    before = -1
    at = heads[state]
    while at >= 0:
        if _dominates(pool[at], row, words):
            return count
        following = link[at]
        if _dominates(row, pool[at], words):
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
def _room(pool):
    bigger = np.empty((2 * len(pool), pool.shape[1]), pool.dtype)
    for r in range(len(pool)):
        for j in range(pool.shape[1]):
            bigger[r, j] = pool[r, j]
    return bigger


@jit
def _longer(link):
    bigger = np.empty(2 * len(link), np.int64)
    for r in range(len(link)):
        bigger[r] = link[r]
    return bigger


@jit
def _owed_after(row, state, plain, moving, word):
    """Return a word of the owed slots once the state was reached, by a plain write or otherwise."""
    reads, writes, nots, every = moving[5], moving[6], moving[7], moving[8]
    met = reads[state, word] | (every[1, word] & ~nots[state, word])
    met |= every[0, word] if plain else writes[state, word]
    return row[_MASKS + word] & ~met


@jit
def _enliven(k, code, moving):
    """Let a class of writes be tried from now on."""
    control, live = moving[10], moving[11]
    if code == WRITE and live[1, k] < 0:
        live[0, control[LIVE]] = k
        live[1, k] = control[LIVE]
        control[LIVE] += 1


@jit
def _end_life(k, code, moving):
    """No operation of the class is left for now."""
    control, live = moving[10], moving[11]
    if code == WRITE:
        control[LIVE] -= 1
        last = live[0, control[LIVE]]
        live[0, live[1, k]] = last
        live[1, last] = live[1, k]
        live[1, k] = -1


@jit
def _called(i, code, a, b, fixed, moving, rows):
    """Let operation i be open: give it a slot; it is owed where the state does not meet it."""
    _, ret, class_of, counter, _, _, _, _, _, _, _ = fixed
    available, slot_of, holder, queue, behind, reads, writes, nots, every, _, control, _ = moving
    if ret[i] == 2**31 - 1:
        available[counter[class_of[i]]] += 1
        _enliven(class_of[i], code[i], moving)
        return
    slot = 0
    while holder[slot] >= 0:
        slot += 1
    holder[slot] = i
    slot_of[i] = slot
    word, bit = slot // BITS, np.int64(1) << (slot % BITS)
    if code[i] == READ:
        reads[a[i], word] |= bit
    elif code[i] == NOT:
        nots[a[i], word] |= bit
        every[1, word] |= bit
    else:
        if code[i] == WRITE:
            writes[b[i], word] |= bit
            every[0, word] |= bit
        at, before = queue[class_of[i]], -1
        while at >= 0 and ret[holder[at]] < ret[i]:
            at, before = behind[at], at
        behind[slot] = at
        if before < 0:
            queue[class_of[i]] = slot
        else:
            behind[before] = slot
        _enliven(class_of[i], code[i], moving)
    for r in range(control[CURRENT]):
        state = rows[r, _STATE]
        met = (code[i] == READ and state == a[i]) or (code[i] == NOT and state != a[i])
        if not met and not (code[i] == WRITE and state == b[i]):
            rows[r, _MASKS + word] |= bit


@jit
def _returned(i, code, a, b, fixed, moving):
    """Take the slot of operation i back; no row has it any more."""
    class_of = fixed[2]
    _, slot_of, holder, queue, behind, reads, writes, nots, every, _, _, _ = moving
    slot = slot_of[i]
    word, bit = slot // BITS, np.int64(1) << (slot % BITS)
    if code[i] == READ:
        reads[a[i], word] &= ~bit
    elif code[i] == NOT:
        nots[a[i], word] &= ~bit
        every[1, word] &= ~bit
    else:
        if code[i] == WRITE:
            writes[b[i], word] &= ~bit
            every[0, word] &= ~bit
        at, before = queue[class_of[i]], -1
        while at != slot:
            at, before = behind[at], at
        if before < 0:
            queue[class_of[i]] = behind[slot]
        else:
            behind[before] = behind[slot]
        column = fixed[3][class_of[i]]
        if queue[class_of[i]] < 0 and (column < 0 or moving[0][column] == 0):
            _end_life(class_of[i], code[i], moving)
    holder[slot] = -1


@jit
def _compact(rows, count, nodes, used):
    """Forget placements that no row rests on; parents stand before children."""
    place = np.zeros(used, np.int32)
    for r in range(count):
        if rows[r, _NODE] >= 0:
            place[rows[r, _NODE]] = 1
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
        if rows[r, _NODE] >= 0:
            rows[r, _NODE] = place[rows[r, _NODE]]
    return kept


@jit
def _narrow(rows, count, width_max, words):
    """Keep the `width_max` rows that owe and spent least; equal ones in their order."""
    cost = np.zeros(count, np.int64)
    for r in range(count):
        for j in range(_MASKS, _MASKS + 2 * words):
            bits = rows[r, j]
            while bits:
                bits &= bits - 1
                cost[r] += 1
        for j in range(_MASKS + 2 * words, rows.shape[1]):
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


@jit
def _expand(code, b, fixed, moving, pools, at, bytes_max):
    """Spend one operation more, in every way, from a waiting row; returns (in bounds, pools)."""
    counter, spare, first, heads, after, members, starts = fixed[3:10]
    available, slot_of, holder, queue, behind = moving[0:5]
    links = moving[9]
    rows, done, waiting, nodes, done_link, waiting_link = pools
    words = len(holder) // BITS
    counted = _MASKS + 2 * words
    event = moving[10][EVENT]
    slot = slot_of[fixed[10][event] - len(code)]
    word, bit = slot // BITS, np.int64(1) << (slot % BITS)
    resource = code[holder[slot]] == WRITE
    row = np.empty(rows.shape[1], np.int64)
    state = waiting[at, _STATE]
    live, control = moving[11], moving[10]
    # After an idle step a plain write would do the same without it.
    writes_left = 0 if waiting[at, _IDLE] else control[LIVE]
    k = heads[state]
    while writes_left > 0 or k >= 0:
        if writes_left > 0:
            writes_left -= 1
            chosen = live[0, writes_left]
        else:
            chosen = k
            k = after[k]
        # Equal operations: the one that returns first, and open ones before indeterminate.
        spend = queue[chosen]
        while spend >= 0:
            if not waiting[at, _MASKS + words + spend // BITS] >> (spend % BITS) & 1:
                break
            spend = behind[spend]
        column = counter[chosen]
        free = spend >= 0
        if not free and column >= 0:
            free = waiting[at, counted + column] < available[column]
        if free:
            if control[NODES] == len(nodes):
                nodes = _room(nodes)
            if max(control[DONE], control[WAITING]) == len(done):
                done, waiting = _room(done), _room(waiting)
                done_link, waiting_link = _longer(done_link), _longer(waiting_link)
            i = members[starts[chosen]]
            for j in range(len(row)):
                row[j] = waiting[at, j]
            row[_STATE] = b[i]
            idle = code[i] == WRITE or spend < 0
            for w in range(words):
                left = _owed_after(row, b[i], code[i] == WRITE, moving, w)
                met = row[_MASKS + w] & ~left
                idle = idle and met & ~moving[8][0, w] == 0
                row[_MASKS + w] = left
            row[_IDLE] = 1 if idle else 0
            if spend >= 0:
                i = holder[spend]
                one = np.int64(1) << (spend % BITS)
                row[_MASKS + spend // BITS] &= ~one
                row[_MASKS + words + spend // BITS] |= one
            else:
                i = spare[first[column] + row[counted + column]]
                row[counted + column] += 1
            used = control[NODES]
            nodes[used, 0], nodes[used, 1], nodes[used, 2] = row[_NODE], i, event
            row[_NODE] = used
            owed = row[_MASKS + word] & bit != 0
            spent = row[_MASKS + words + word] & bit != 0
            kept = False
            if owed or (resource and not spent):
                grown = _add(waiting, control[WAITING], waiting_link, links[1], row, words)
                kept = grown > control[WAITING]
                control[WAITING] = grown
            if not owed:
                row[_MASKS + words + word] &= ~bit
                grown = _add(done, control[DONE], done_link, links[0], row, words)
                kept = kept or grown > control[DONE]
                control[DONE] = grown
            if kept:
                control[NODES] += 1
    row_bytes = 8 * (rows.shape[1] + 1)
    used_bytes = (2 * len(done) + len(rows)) * row_bytes + 12 * len(nodes)
    return used_bytes < bytes_max, (rows, done, waiting, nodes, done_link, waiting_link)


@jit
def _begin_return(moving, pools, slot, resource):
    """Sort rows into done and waiting, if any owes or spent what returns; else do nothing.

    A plain write that a row neither owes nor spent is a `resource` that ends now: it may go unused
    (done), or be placed now (waiting).
    """
    control, links = moving[10], moving[9]
    rows, done, waiting, nodes, done_link, waiting_link = pools
    words = len(moving[2]) // BITS
    word, bit = slot // BITS, np.int64(1) << (slot % BITS)
    at_owed, at_spent = _MASKS + word, _MASKS + words + word
    touched = resource
    for r in range(control[CURRENT]):
        if (rows[r, at_owed] | rows[r, at_spent]) & bit:
            touched = True
            break
    if touched:
        control[DONE] = control[WAITING] = control[NEXT] = 0
        control[EXPANDING] = 1
        while len(done) < control[CURRENT] + 1:
            done, waiting = _room(done), _room(waiting)
            done_link, waiting_link = _longer(done_link), _longer(waiting_link)
        for r in range(control[CURRENT]):
            rows[r, _IDLE] = 0
            owed, spent = rows[r, at_owed] & bit != 0, rows[r, at_spent] & bit != 0
            if owed or (resource and not spent):
                control[WAITING] = _add(
                    waiting, control[WAITING], waiting_link, links[1], rows[r], words
                )
            if not owed:
                rows[r, at_spent] &= ~bit
                control[DONE] = _add(done, control[DONE], done_link, links[0], rows[r], words)
    return rows, done, waiting, nodes, done_link, waiting_link


@jit
def _end_return(moving, pools, width_max):
    """What is done is the new frontier, narrowed where it is too wide."""
    control, links = moving[10], moving[9]
    rows, done, waiting, nodes, done_link, waiting_link = pools
    for r in range(control[WAITING]):
        links[1, waiting[r, _STATE]] = -1
    for r in range(control[DONE]):
        links[0, done[r, _STATE]] = -1
    if control[DONE] > len(rows):
        rows = np.zeros((len(done), rows.shape[1]), np.int64)
    count = np.int64(0)
    for r in range(control[DONE]):
        if done_link[r] != -2:
            for j in range(rows.shape[1]):
                rows[count, j] = done[r, j]
            count += 1
    if count > width_max:
        _narrow(rows, count, width_max, len(moving[2]) // BITS)
        count = width_max
        control[TRUNCATED] = 1
    control[CURRENT] = count
    control[EXPANDING] = 0
    if 2 * control[NODES] > len(nodes):
        control[NODES] = _compact(rows, count, nodes, control[NODES])
    return rows, done, waiting, nodes, done_link, waiting_link


@jit
def run(code, a, b, fixed, moving, pools, width_max, steps, bytes_max):
    """Go on for about `steps` configurations; returns (status, pools)."""
    entries = fixed[10]
    slot_of, control = moving[1], moving[10]
    n = len(code)
    while steps > 0:
        event = control[EVENT]
        if event == len(entries):
            return FOUND, pools
        entry = entries[event]
        steps -= 1 + control[CURRENT] // 8
        if entry < n:
            _called(entry, code, a, b, fixed, moving, pools[0])
            control[EVENT] += 1
            continue
        if not control[EXPANDING]:
            resource = code[entry - n] == WRITE
            pools = _begin_return(moving, pools, slot_of[entry - n], resource)
        if control[EXPANDING]:
            while control[NEXT] < control[WAITING]:
                if steps <= 0:
                    return RUNNING, pools
                at = control[NEXT]
                if pools[5][at] != -2:
                    if control[WAITING] > 8 * width_max and control[DONE] > 0:
                        control[TRUNCATED] = 1
                        break
                    steps -= 1 + (control[WAITING] + control[DONE]) // 64
                    control[EXPLORED] += 1
                    fits, pools = _expand(code, b, fixed, moving, pools, at, bytes_max)
                    if not fits:
                        return MEMORY, pools
                control[NEXT] += 1
            pools = _end_return(moving, pools, width_max)
            if control[CURRENT] == 0:
                control[FURTHEST] = event
                return (DIED if control[TRUNCATED] else NONE), pools
        _returned(entry - n, code, a, b, fixed, moving)
        control[EVENT] += 1
        control[FURTHEST] = event
    return RUNNING, pools


@jit
def placements(pools):
    """Return (operations, events) that led to the first row, in order."""
    nodes = pools[3]
    count = 0
    at = pools[0][0, _NODE]
    while at >= 0:
        count += 1
        at = nodes[at, 0]
    placed, events = np.empty(count, np.int64), np.empty(count, np.int64)
    at = pools[0][0, _NODE]
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
    to that of the next. An open read goes to the first gap whose state meets it, a write to the
    first one before another write, or in which its value is there anyway. Empty when some
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
