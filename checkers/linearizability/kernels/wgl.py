"""The search of `linearizability.wgl`, compiled: same theory, same prunings, integers throughout.

What differs from the plain one:

- The memo holds 128-bit fingerprints of configurations (Zobrist: one random word an operation,
  combined by xor) instead of configurations: 16 bytes each. Two configurations with one fingerprint
  (chance 2**-75 for 2**26 of them) could hide an order, never invent one; the certificate of the
  FAIL would then be refused.
- An indeterminate operation is not followed by a plain write: without it the rest is the same.
  What was placed last (indeterminate or not) is therefore part of a configuration.
- Of strings that are appended to, all that no read shows an extension of are one state: nothing
  will be seen before the next plain write. Indeterminate operations do not lead there.
- It works in chunks: `run` returns after so many steps and goes on where it stopped, so that
  the caller can look at clock and memory in between.
"""

from __future__ import annotations

import numpy as np

from checkers.linearizability.kernels.compiled import (
    DEAD,
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
    mix,
    step,
    table_of,
    where,
)

__all__ = ["begin", "run", "run_keys", "table_of"]


DEPTH, STATE, FLAG, LAST, FRESH, COUNT = 0, 1, 2, 3, 4, 5
FURTHEST, BLOCKED, BLOCKED_STATE, EXPLORED, PURE_END, SIZE = 6, 7, 8, 9, 10, 12
_PUT_KEY, _UNSEEN_KEY = 1 << 35, 1 << 36
_INDETERMINATE_KEY = 1 << 40
"""Candidates are tried by rank of their return, indeterminate ones after all others."""


@jit
def begin(code, a, b, invoke, complete, info, initial):
    """Return everything that a search needs, before its first step."""
    n = len(code)
    entries, call, ret = lay_out(invoke, complete, info)
    following = np.full(2 * n + 1, 2 * n, np.int32)
    previous = np.full(2 * n + 1, 2 * n, np.int32)
    left = 2 * n
    for entry in entries:
        if entry < n and info[entry]:
            continue
        following[left] = entry
        previous[entry] = left
        left = entry
    following[left] = 2 * n
    previous[2 * n] = left
    members, starts = classes(where(info), code, a, b)
    used = np.zeros(len(starts), np.int32)
    stack = np.empty((n + 1, 4), np.int64)
    control = np.zeros(SIZE, np.int64)
    control[STATE] = initial
    control[FRESH] = 1
    control[LAST] = -1
    control[FURTHEST] = -1
    control[BLOCKED] = -1
    hashes = np.zeros(2, np.uint64)
    capacity = 16
    while capacity < 2 * n and capacity < 1 << 16:
        capacity *= 2
    memo = np.zeros((capacity, 2), np.uint64)
    return (
        entries,
        call,
        ret,
        following,
        previous,
        members,
        starts,
        used,
        stack,
        control,
        hashes,
        memo,
    )


@jit
def _known(memo, one, two):
    mask = np.uint64(len(memo) - 1)
    at = one & mask
    while memo[at, 1] != 0:
        if memo[at, 0] == one and memo[at, 1] == two:
            return True
        at = (at + np.uint64(1)) & mask
    return False


@jit
def _insert(memo, one, two):
    mask = np.uint64(len(memo) - 1)
    at = one & mask
    while memo[at, 1] != 0:
        at = (at + np.uint64(1)) & mask
    memo[at, 0] = one
    memo[at, 1] = two


@jit
def _larger(memo):
    bigger = np.zeros((2 * len(memo), 2), np.uint64)
    for at in range(len(memo)):
        if memo[at, 1] != 0:
            _insert(bigger, memo[at, 0], memo[at, 1])
    return bigger


@jit
def _zobrist(i, which):
    return mix(2 * np.int64(i) + which + 0x5851F42D)


@jit
def run(code, a, b, info, viable, search, memo, steps, bytes_max):
    """Go on for at most `steps` steps; returns (status, memo, which may be a larger one)."""
    _, call, ret, following, previous, members, starts, used, stack, control, hashes, _ = search
    n = len(code)
    head = 2 * n
    class_count = len(starts) - 1
    strings = len(viable) > 2
    depth, state, flag = control[DEPTH], control[STATE], control[FLAG]
    last, fresh, count = control[LAST], control[FRESH], control[COUNT]
    furthest, explored = control[FURTHEST], control[EXPLORED]
    one, two = hashes[0], hashes[1]
    status = RUNNING
    while steps > 0:
        steps -= 1
        # The next candidate after `last`: an operation that may come next, by return rank.
        best = np.int64(1) << 62
        chosen = -1
        pure = False
        entry = following[head]
        while entry < n:
            c = code[entry]
            if (c == READ and a[entry] == state) or (c == NOT and a[entry] != state):
                pure = True
                chosen = entry
                break
            effect = c != READ and c != NOT  # noqa: PLR1714  (Numba has no sets of constants)
            if effect and not (flag == 1 and c == WRITE):
                legal, after = step(c, a[entry], b[entry], state, viable)
                # Of strings, what goes on from what is there is tried first, and what is never
                # seen again last.
                key = np.int64(ret[entry]) + (_UNSEEN_KEY if after == DEAD else 0)
                if strings and c == WRITE:
                    key += _PUT_KEY
                if legal and last < key < best:
                    best = key
                    chosen = entry
            entry = following[entry]
        if entry == head:
            status = FOUND
            break
        if pure:
            if fresh == 0:  # it was tried already and has no alternative
                chosen = -1
        else:
            rank = ret[entry - n]
            if fresh == 1 and rank > furthest:
                furthest = np.int64(rank)
                control[BLOCKED] = entry - n
                control[BLOCKED_STATE] = state
            if chosen < 0:
                for k in range(max(0, last + 1 - _INDETERMINATE_KEY), class_count):
                    place = starts[k] + used[k]
                    key = _INDETERMINATE_KEY + k
                    if place < starts[k + 1]:
                        i = members[place]
                        if call[i] < rank and not (flag == 1 and code[i] == WRITE):
                            legal, after = step(code[i], a[i], b[i], state, viable)
                            changes = after != state and after != DEAD  # noqa: PLR1714  (see above)
                            if legal and changes:
                                best = np.int64(key)
                                chosen = i
                                break
        fresh = 0
        if chosen >= 0:
            _legal, after = step(code[chosen], a[chosen], b[chosen], state, viable)
            new_flag = 1 if info[chosen] else 0
            new_one = one ^ _zobrist(chosen, 0)
            new_two = two ^ _zobrist(chosen, 1)
            if not pure:
                explored += 1
                tag = mix(after ^ np.int64(0x1234567))
                tag_two = mix(after ^ np.int64(0x7654321))
                key_one, key_two = new_one ^ tag, (new_two ^ tag_two) | np.uint64(1)
                flagged = key_one ^ np.uint64(0xD6E8FEB86659FD93)
                seen = _known(memo, key_one, key_two)
                if not seen and new_flag == 1:
                    seen = _known(memo, flagged, key_two)
                if seen:
                    last = best
                    continue
                if 10 * (count + 1) > 6 * len(memo):
                    if 48 * len(memo) + 40 * n > bytes_max:
                        status = MEMORY
                        last = best - 1
                        break
                    memo = _larger(memo)
                _insert(memo, flagged if new_flag == 1 else key_one, key_two)
                count += 1
            stack[depth, 0] = chosen
            stack[depth, 1] = state
            stack[depth, 2] = flag
            stack[depth, 3] = best
            depth += 1
            if info[chosen]:
                used[best - _INDETERMINATE_KEY] += 1
            else:
                following[previous[chosen]] = following[chosen]
                previous[following[chosen]] = previous[chosen]
                back = n + chosen
                following[previous[back]] = following[back]
                previous[following[back]] = previous[back]
            one, two, state, flag = new_one, new_two, after, np.int64(new_flag)
            last = np.int64(-1)
            fresh = 1
            continue
        if depth == 0:
            status = NONE
            break
        depth -= 1
        i = stack[depth, 0]
        state = stack[depth, 1]
        flag = stack[depth, 2] & 1
        one ^= _zobrist(i, 0)
        two ^= _zobrist(i, 1)
        last = stack[depth, 3]
        if info[i]:
            used[last - _INDETERMINATE_KEY] -= 1
        else:
            back = n + i
            following[previous[back]] = back
            previous[following[back]] = back
            following[previous[i]] = i
            previous[following[i]] = i
    control[DEPTH], control[STATE], control[FLAG] = depth, state, flag
    control[LAST], control[FRESH], control[COUNT] = last, fresh, count
    control[FURTHEST], control[EXPLORED] = furthest, explored
    hashes[0], hashes[1] = one, two
    return status, memo


@jit
def run_keys(
    bounds, code, a, b, info, invoke, complete, viable, initial, steps_each, bytes_max, order, out
):
    """Search many keys, each for a few steps for each operation; for what is easy.

    Key k holds the rows `bounds[k]:bounds[k + 1]`. `out[k]` gets (status, operations placed,
    configurations entered); the placed rows go to `order` from `bounds[k]` on, -1 behind them.
    """
    for k in range(len(bounds) - 1):
        low, high = bounds[k], bounds[k + 1]
        search = begin(
            code[low:high],
            a[low:high],
            b[low:high],
            invoke[low:high],
            complete[low:high],
            info[low:high],
            initial,
        )
        steps = steps_each * (high - low) + 64
        status, _ = run(
            code[low:high],
            a[low:high],
            b[low:high],
            info[low:high],
            viable,
            search,
            search[11],
            steps,
            bytes_max,
        )
        depth = search[9][DEPTH]
        out[k, 0], out[k, 1], out[k, 2] = status, depth, search[9][EXPLORED]
        placed = depth if status == FOUND else 0
        for j in range(placed):
            order[low + j] = low + search[8][j, 0]
        order[low + placed : high] = -1
