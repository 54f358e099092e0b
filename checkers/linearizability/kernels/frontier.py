"""Registers by a frontier of configurations: in order of time, all that can be and is of use.

Theory (just-in-time linearization: Lowe 2017; Wing and Gong 1993). Walk through calls and returns
in order of time. A configuration says what may be at this moment: the state, and what became of
each open operation. Nothing has to be placed before the return of some operation forces it to be;
so only there configurations are expanded, by placing open operations in every order, until the one
that returns is done with. The history is linearizable exactly when some configuration outlives the
last return.

What became of an open operation x:

- *owed*: nothing yet met its obligation to take effect before it returns;
- *spent*: it was placed, its effect can not be had again;
- neither: its obligation is met, and it can still be placed. So for a read (of the state as it is
  now or was since its call), for a write of the value that is there, and for every open write when
  another write is placed: it can stand directly before that one, and nobody will see it.

Of indeterminate operations only the number spent of each class is kept, where a class is all that
would do the same: they return never, so any that was called is as good as another. The earliest
called is spent first; of equal open operations the one that returns first.

Dominance. With one state, configuration A dominates B when A owes nothing that B does not owe,
and has spent nothing that B has not spent, and of no class more. Then whatever B does next, A can
do, and it dominates still:

- B places x. If A has an equal operation y that it would rather place (one that returns earlier, or
  an open one where x is indeterminate), B has spent y, or it would have chosen it too; then A
  places y, else x. Either way the state is the same, so are the obligations that it meets, and A
  has spent nothing that B has not.
- x returns. If B may let it go, x is not owed in B, so not in A, and A may let it go. It is spent
  in neither after that.
- x is called: it becomes owed in both or in neither, since the states are equal.

So B may be dropped (the frontier is an antichain). A write that is neither owed nor spent when it
returns is a resource that ends: it may go unused, or be placed at this last moment, and both are
kept. A compare-and-set is owed exactly until it is spent. One from a value to itself is a read.

With a width, the frontier keeps only so many configurations, those that owe and have spent least:
an order that is found is an order; that none is found proves nothing then.

Soundness and completeness: PASS comes with the order, FAIL means that no configuration outlived a
return. Complexity: O(events x width x (width + values)), where the width is exponential in the
worst case (in concurrent compare-and-sets, and in distinct classes of indeterminate operations),
and small for plain writes however many clients there are.

A configuration is a row of integers: state, node of the log of placements, masks of owed and of
spent slots (63 slots a word), and how many indeterminate operations of each class were spent. A
slot is a place that an open operation holds from its call to its return. `run` works in chunks and
keeps everything in arrays, so that it goes on where it stopped.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.antichain import (
    BITS,
    IDLE,
    MASKS,
    NODE,
    STATE,
    add,
    compact,
    longer,
    narrow,
    room,
)
from checkers.linearizability.kernels.compiled import (
    DIED,
    FOUND,
    MEMORY,
    NONE,
    NOT,
    READ,
    RUNNING,
    WRITE,
    jit,
)
from checkers.linearizability.kernels.frontier_state import (
    CURRENT,
    DONE,
    EVENT,
    EXPANDING,
    EXPLORED,
    FURTHEST,
    LIVE,
    NEXT,
    NODES,
    TRUNCATED,
    WAITING,
    begin,
)
from checkers.linearizability.kernels.weave import placements, weave

__all__ = ["EVENT", "EXPLORED", "TRUNCATED", "begin", "placements", "run", "weave"]


@jit
def _owed_after(row, state, plain, moving, word):
    """Return a word of the owed slots once the state was reached, by a plain write or otherwise."""
    reads, writes, nots, every = moving[5], moving[6], moving[7], moving[8]
    met = reads[state, word] | (every[1, word] & ~nots[state, word])
    met |= every[0, word] if plain else writes[state, word]
    return row[MASKS + word] & ~met


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
        state = rows[r, STATE]
        met = (code[i] == READ and state == a[i]) or (code[i] == NOT and state != a[i])
        if not met and not (code[i] == WRITE and state == b[i]):
            rows[r, MASKS + word] |= bit


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
def _expand(code, b, fixed, moving, pools, at, bytes_max):
    """Spend one operation more, in every way, from a waiting row; returns (in bounds, pools)."""
    counter, spare, first, heads, after, members, starts = fixed[3:10]
    available, slot_of, holder, queue, behind = moving[0:5]
    links = moving[9]
    rows, done, waiting, nodes, done_link, waiting_link = pools
    words = len(holder) // BITS
    counted = MASKS + 2 * words
    event = moving[10][EVENT]
    slot = slot_of[fixed[10][event] - len(code)]
    word, bit = slot // BITS, np.int64(1) << (slot % BITS)
    resource = code[holder[slot]] == WRITE
    row = np.empty(rows.shape[1], np.int64)
    state = waiting[at, STATE]
    live, control = moving[11], moving[10]
    # After an idle step a plain write would do the same without it.
    writes_left = 0 if waiting[at, IDLE] else control[LIVE]
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
            if not waiting[at, MASKS + words + spend // BITS] >> (spend % BITS) & 1:
                break
            spend = behind[spend]
        column = counter[chosen]
        free = spend >= 0
        if not free and column >= 0:
            free = waiting[at, counted + column] < available[column]
        if free:
            if control[NODES] == len(nodes):
                nodes = room(nodes)
            if max(control[DONE], control[WAITING]) == len(done):
                done, waiting = room(done), room(waiting)
                done_link, waiting_link = longer(done_link), longer(waiting_link)
            i = members[starts[chosen]]
            for j in range(len(row)):
                row[j] = waiting[at, j]
            row[STATE] = b[i]
            idle = code[i] == WRITE or spend < 0
            for w in range(words):
                left = _owed_after(row, b[i], code[i] == WRITE, moving, w)
                met = row[MASKS + w] & ~left
                idle = idle and met & ~moving[8][0, w] == 0
                row[MASKS + w] = left
            row[IDLE] = 1 if idle else 0
            if spend >= 0:
                i = holder[spend]
                spent_bit = np.int64(1) << (spend % BITS)
                row[MASKS + spend // BITS] &= ~spent_bit
                row[MASKS + words + spend // BITS] |= spent_bit
            else:
                i = spare[first[column] + row[counted + column]]
                row[counted + column] += 1
            used = control[NODES]
            nodes[used, 0], nodes[used, 1], nodes[used, 2] = row[NODE], i, event
            row[NODE] = used
            owed = row[MASKS + word] & bit != 0
            spent = row[MASKS + words + word] & bit != 0
            kept = False
            if owed or (resource and not spent):
                grown = add(waiting, control[WAITING], waiting_link, links[1], row, words)
                kept = grown > control[WAITING]
                control[WAITING] = grown
            if not owed:
                row[MASKS + words + word] &= ~bit
                grown = add(done, control[DONE], done_link, links[0], row, words)
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
    at_owed, at_spent = MASKS + word, MASKS + words + word
    touched = resource
    for r in range(control[CURRENT]):
        if (rows[r, at_owed] | rows[r, at_spent]) & bit:
            touched = True
            break
    if touched:
        control[DONE] = control[WAITING] = control[NEXT] = 0
        control[EXPANDING] = 1
        while len(done) < control[CURRENT] + 1:
            done, waiting = room(done), room(waiting)
            done_link, waiting_link = longer(done_link), longer(waiting_link)
        for r in range(control[CURRENT]):
            rows[r, IDLE] = 0
            owed, spent = rows[r, at_owed] & bit != 0, rows[r, at_spent] & bit != 0
            if owed or (resource and not spent):
                control[WAITING] = add(
                    waiting, control[WAITING], waiting_link, links[1], rows[r], words
                )
            if not owed:
                rows[r, at_spent] &= ~bit
                control[DONE] = add(done, control[DONE], done_link, links[0], rows[r], words)
    return rows, done, waiting, nodes, done_link, waiting_link


@jit
def _end_return(moving, pools, width_max):
    """What is done is the new frontier, narrowed where it is too wide."""
    control, links = moving[10], moving[9]
    rows, done, waiting, nodes, done_link, waiting_link = pools
    for r in range(control[WAITING]):
        links[1, waiting[r, STATE]] = -1
    for r in range(control[DONE]):
        links[0, done[r, STATE]] = -1
    if control[DONE] > len(rows):
        rows = np.zeros((len(done), rows.shape[1]), np.int64)
    count = np.int64(0)
    for r in range(control[DONE]):
        if done_link[r] != -2:
            for j in range(rows.shape[1]):
                rows[count, j] = done[r, j]
            count += 1
    if count > width_max:
        narrow(rows, count, width_max, len(moving[2]) // BITS)
        count = width_max
        control[TRUNCATED] = 1
    control[CURRENT] = count
    control[EXPANDING] = 0
    if 2 * control[NODES] > len(nodes):
        control[NODES] = compact(rows, count, nodes, control[NODES])
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
