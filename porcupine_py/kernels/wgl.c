/* The search of porcupine_py/search/wgl.py: same theory, same prunings, integers throughout.

   What differs from the plain one:

   - The memo holds 128-bit fingerprints of configurations (Zobrist: one random word an operation,
     combined by xor) instead of configurations: 16 bytes each. Two configurations with one
     fingerprint (chance 2**-75 for 2**26 of them) could hide an order, never invent one; the
     certificate of the FAIL would then be refused.
   - An indeterminate operation is not followed by a plain write: without it the rest is the same.
     What was placed last (indeterminate or not) is therefore part of a configuration.
   - Of strings that are appended to, all that no read shows an extension of are one state: nothing
     will be seen before the next plain write. Indeterminate operations do not lead there.
   - It works in chunks: `wgl_run` returns after so many steps and goes on where it stopped, so that
     the caller can look at clock and memory in between. */

#include "operations.h"

#include <stdlib.h>
#include <string.h>

/* Candidates are tried by rank of their return; of strings, what goes on from what is there is tried
   first, and what is never seen again last; indeterminate ones after all others. */
static const int64_t PUT_KEY = INT64_C(1) << 35, UNSEEN_KEY = INT64_C(1) << 36;
static const int64_t INDETERMINATE_KEY = INT64_C(1) << 40, NO_KEY = INT64_C(1) << 62;

/* As many operations are looked at in one step. */
enum { LOOKS_A_STEP = 1024 };

struct placement {
    int64_t state; /* before it */
    int64_t key;
    int32_t operation;
    int32_t flag; /* before it */
};

struct fingerprint {
    uint64_t one, two; /* two: 0 where nothing is */
};

struct wgl {
    struct history history;
    struct viable viable;
    int32_t class_count;
    int32_t *call, *ret;            /* ranks */
    int32_t *following, *previous;  /* entries left, a ring through 2 * count */
    int32_t *members, *starts, *used; /* classes of indeterminate operations */
    struct placement *stack;
    void *block;
    size_t block_bytes;
    struct fingerprint *memo;
    int64_t memo_slots, memo_room;
    int32_t depth;
    int64_t state, last, explored, memo_count;
    bool flag, fresh;
    uint64_t one, two;
    int64_t furthest, blocked, blocked_state;
};

static size_t words(size_t count)
{
    return (count + 1) / 2 * 2; /* of 32 bits; the next array begins at a multiple of 8 bytes */
}

static size_t bytes_for(int32_t count)
{
    size_t n = (size_t)count;
    size_t integers = 4 * words(n) + 2 * words(2 * n + 1) + words(n + 2) + words(n + 1);
    integers += words(2 * n) + words(n) + words(classes_scratch(count));
    return (n + 1) * sizeof(struct placement) + integers * sizeof(int32_t);
}

/* Return whether there is memory for a history of so many operations. */
static bool make_room(struct wgl *w, int32_t count)
{
    size_t bytes = bytes_for(count);
    int64_t slots = 16;
    while (slots < 2 * (int64_t)count && slots < 1 << 16) {
        slots *= 2;
    }
    if (bytes > w->block_bytes) {
        free(w->block);
        w->block = malloc(bytes);
        w->block_bytes = w->block == NULL ? 0 : bytes;
    }
    if (slots > w->memo_room) {
        free(w->memo);
        w->memo = malloc((size_t)slots * sizeof *w->memo);
        w->memo_room = w->memo == NULL ? 0 : slots;
    }
    w->memo_slots = slots;
    return w->block != NULL && w->memo != NULL;
}

static int32_t *taken(int32_t **at, size_t count)
{
    int32_t *array = *at;
    *at += words(count);
    return array;
}

/* Begin a search; false where there is no memory. */
static bool begin(struct wgl *w, const struct history *h, const struct viable *viable,
                  int64_t initial)
{
    int32_t n = h->count;
    size_t size = (size_t)n;
    w->depth = 0;
    w->explored = 0;
    if (!make_room(w, n)) {
        return false;
    }
    w->history = *h;
    w->viable = *viable;
    w->stack = w->block;
    int32_t *at = (int32_t *)(w->stack + size + 1);
    w->call = taken(&at, size);
    w->ret = taken(&at, size);
    w->following = taken(&at, 2 * size + 1);
    w->previous = taken(&at, 2 * size + 1);
    w->members = taken(&at, size);
    w->starts = taken(&at, size + 2);
    w->used = taken(&at, size + 1);
    int32_t *entries = taken(&at, 2 * size), *chosen = taken(&at, size);
    int32_t *returns = taken(&at, size), *scratch = at;
    int32_t count = lay_out(h, returns, entries, w->call, w->ret);
    int32_t left = 2 * n;
    for (int32_t k = 0; k < count; k++) {
        int32_t entry = entries[k];
        if (entry < n && h->info[entry]) {
            continue;
        }
        w->following[left] = entry;
        w->previous[entry] = left;
        left = entry;
    }
    w->following[left] = 2 * n;
    w->previous[2 * n] = left;
    int32_t hidden = 0;
    for (int32_t i = 0; i < n; i++) {
        if (h->info[i]) {
            chosen[hidden++] = i;
        }
    }
    w->class_count = hidden ? classes(h, chosen, hidden, scratch, w->members, w->starts) : 0;
    memset(w->used, 0, (size_t)(w->class_count + 1) * sizeof *w->used);
    memset(w->memo, 0, (size_t)w->memo_slots * sizeof *w->memo);
    w->state = initial;
    w->flag = false;
    w->last = -1;
    w->fresh = true;
    w->memo_count = 0;
    w->one = w->two = 0;
    w->furthest = w->blocked = -1;
    w->blocked_state = 0;
    return true;
}

static bool is_known(const struct wgl *w, uint64_t one, uint64_t two)
{
    uint64_t mask = (uint64_t)w->memo_slots - 1;
    for (uint64_t at = one & mask; w->memo[at].two != 0; at = (at + 1) & mask) {
        if (w->memo[at].one == one && w->memo[at].two == two) {
            return true;
        }
    }
    return false;
}

static void insert(struct fingerprint *memo, int64_t slots, struct fingerprint print)
{
    uint64_t mask = (uint64_t)slots - 1, at = print.one & mask;
    while (memo[at].two != 0) {
        at = (at + 1) & mask;
    }
    memo[at] = print;
}

/* Double the memo; false where there is no memory. */
static bool enlarge(struct wgl *w)
{
    int64_t slots = 2 * w->memo_slots;
    struct fingerprint *larger = calloc((size_t)slots, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    for (int64_t k = 0; k < w->memo_slots; k++) {
        if (w->memo[k].two != 0) {
            insert(larger, slots, w->memo[k]);
        }
    }
    free(w->memo);
    w->memo = larger;
    w->memo_slots = w->memo_room = slots;
    return true;
}

static uint64_t zobrist(int32_t i, uint64_t which)
{
    return mix(2 * (uint64_t)i + which + UINT64_C(0x5851F42D));
}

static void unlink_entry(struct wgl *w, int32_t entry)
{
    w->following[w->previous[entry]] = w->following[entry];
    w->previous[w->following[entry]] = w->previous[entry];
}

static void relink_entry(struct wgl *w, int32_t entry)
{
    w->following[w->previous[entry]] = entry;
    w->previous[w->following[entry]] = entry;
}

struct choice {
    int32_t operation; /* -1: none */
    int64_t key;
    bool pure; /* it changes nothing, so there is no alternative to it */
    bool done; /* nothing is left to place */
    int64_t looked; /* at so many operations and classes */
};

/* Find the next candidate after `last`: an operation that may come next. */
static struct choice choose(struct wgl *w)
{
    const struct history *h = &w->history;
    int32_t n = h->count, entry = w->following[2 * n];
    bool strings = w->viable.slots > 2;
    struct choice best = {-1, NO_KEY, false, false, 0};
    for (; entry < n; entry = w->following[entry], best.looked++) {
        int8_t code = h->code[entry];
        if (code == READ || code == NOT) {
            if ((h->a[entry] == w->state) == (code == READ)) {
                best.pure = true;
                best.operation = w->fresh ? entry : -1; /* else it was tried already */
                return best;
            }
        } else if (!(w->flag && code == WRITE)) {
            int64_t after;
            bool legal = step(code, h->a[entry], h->b[entry], w->state, &w->viable, &after);
            int64_t key = w->ret[entry] + (after == DEAD ? UNSEEN_KEY : 0);
            key += strings && code == WRITE ? PUT_KEY : 0;
            if (legal && w->last < key && key < best.key) {
                best.key = key;
                best.operation = entry;
            }
        }
    }
    if (entry == 2 * n) {
        best.done = true;
        return best;
    }
    int32_t rank = w->ret[entry - n];
    if (w->fresh && rank > w->furthest) {
        w->furthest = rank;
        w->blocked = entry - n;
        w->blocked_state = w->state;
    }
    if (best.operation >= 0) {
        return best;
    }
    int64_t first = w->last + 1 - INDETERMINATE_KEY;
    for (int64_t k = first > 0 ? first : 0; k < w->class_count; k++, best.looked++) {
        int32_t place = w->starts[k] + w->used[k];
        if (place >= w->starts[k + 1]) {
            continue;
        }
        int32_t i = w->members[place];
        if (w->call[i] < rank && !(w->flag && h->code[i] == WRITE)) {
            int64_t after;
            bool legal = step(h->code[i], h->a[i], h->b[i], w->state, &w->viable, &after);
            if (legal && after != w->state && after != DEAD) {
                best.key = INDETERMINATE_KEY + k;
                best.operation = i;
                return best;
            }
        }
    }
    return best;
}

static void place(struct wgl *w, const struct choice *chosen, int64_t after)
{
    int32_t i = chosen->operation, n = w->history.count;
    w->stack[w->depth++] = (struct placement){w->state, chosen->key, i, w->flag};
    if (w->history.info[i]) {
        w->used[chosen->key - INDETERMINATE_KEY]++;
    } else {
        unlink_entry(w, i);
        unlink_entry(w, n + i);
    }
    w->one ^= zobrist(i, 0);
    w->two ^= zobrist(i, 1);
    w->state = after;
    w->flag = w->history.info[i] != 0;
    w->last = -1;
    w->fresh = true;
}

static void take_back(struct wgl *w)
{
    const struct placement *top = &w->stack[--w->depth];
    int32_t i = top->operation, n = w->history.count;
    w->state = top->state;
    w->flag = top->flag != 0;
    w->last = top->key;
    w->one ^= zobrist(i, 0);
    w->two ^= zobrist(i, 1);
    if (w->history.info[i]) {
        w->used[w->last - INDETERMINATE_KEY]--;
    } else {
        relink_entry(w, n + i);
        relink_entry(w, i);
    }
}

/* Remember the configuration that a choice leads to: RUNNING; NONE where it was known; MEMORY. */
static int remember(struct wgl *w, int32_t i, int64_t after, int64_t bytes_max)
{
    uint64_t state = (uint64_t)after;
    struct fingerprint print = {
        w->one ^ zobrist(i, 0) ^ mix(state ^ UINT64_C(0x1234567)),
        (w->two ^ zobrist(i, 1) ^ mix(state ^ UINT64_C(0x7654321))) | 1,
    };
    struct fingerprint flagged = {print.one ^ UINT64_C(0xD6E8FEB86659FD93), print.two};
    bool info = w->history.info[i];
    /* What can be done after a determinate operation can be done with less after an indeterminate. */
    if (is_known(w, print.one, print.two) || (info && is_known(w, flagged.one, flagged.two))) {
        return NONE;
    }
    if (10 * (w->memo_count + 1) > 6 * w->memo_slots) {
        if (48 * w->memo_slots + 40 * (int64_t)w->history.count > bytes_max || !enlarge(w)) {
            return MEMORY;
        }
    }
    insert(w->memo, w->memo_slots, info ? flagged : print);
    w->memo_count++;
    return RUNNING;
}

/* Go on for about `steps` steps; returns the status. A step that looks at many operations counts as
   many: the caller would wait too long. */
static int run(struct wgl *w, int64_t steps, int64_t bytes_max)
{
    const struct history *h = &w->history;
    while (steps > 0) {
        struct choice chosen = choose(w);
        steps -= 1 + chosen.looked / LOOKS_A_STEP;
        if (chosen.done) {
            return FOUND;
        }
        w->fresh = false;
        if (chosen.operation < 0) {
            if (w->depth == 0) {
                return NONE;
            }
            take_back(w);
            continue;
        }
        int32_t i = chosen.operation;
        int64_t after;
        step(h->code[i], h->a[i], h->b[i], w->state, &w->viable, &after);
        if (!chosen.pure) {
            w->explored++;
            int status = remember(w, i, after, bytes_max);
            if (status == MEMORY) {
                w->last = chosen.key - 1;
                return MEMORY;
            }
            if (status == NONE) {
                w->last = chosen.key;
                continue;
            }
        }
        place(w, &chosen, after);
    }
    return RUNNING;
}

EXPORT void wgl_free(struct wgl *w)
{
    if (w != NULL) {
        free(w->block);
        free(w->memo);
        free(w);
    }
}

/* A search from a state; NULL where there is no memory. The arrays must outlive it. */
EXPORT struct wgl *wgl_new(const struct history *history, const struct viable *viable,
                           int64_t initial)
{
    struct wgl *w = calloc(1, sizeof *w);
    if (w != NULL && !begin(w, history, viable, initial)) {
        wgl_free(w);
        return NULL;
    }
    return w;
}

EXPORT int32_t wgl_run(struct wgl *w, int64_t steps, int64_t bytes_max)
{
    return run(w, steps, bytes_max);
}

/* Report (operations placed, rank of the furthest return that was met, the operation that returns
   then, the state there, configurations entered). */
EXPORT void wgl_report(const struct wgl *w, int64_t *report)
{
    report[0] = w->depth;
    report[1] = w->furthest;
    report[2] = w->blocked;
    report[3] = w->blocked_state;
    report[4] = w->explored;
}

/* Write the positions that are placed, in order. */
EXPORT void wgl_order(const struct wgl *w, int64_t *order)
{
    for (int32_t k = 0; k < w->depth; k++) {
        order[k] = w->stack[k].operation;
    }
}

/* Search many keys, each for a few steps for each operation; for what is easy.

   Key k holds the rows `bounds[k]` to `bounds[k + 1]`. `outcomes[k]` gets (status, operations placed,
   configurations entered); the placed rows go to `order` from `bounds[k]` on, -1 behind them. */
EXPORT void wgl_run_keys(const struct history *all, const int64_t *bounds, int64_t keys,
                         const struct viable *viable, int64_t initial, int64_t steps_each,
                         int64_t bytes_max, int64_t *order, int64_t (*outcomes)[3])
{
    struct wgl w;
    memset(&w, 0, sizeof w);
    for (int64_t k = 0; k < keys; k++) {
        int64_t low = bounds[k], count = bounds[k + 1] - low;
        struct history part = {
            (int32_t)count, all->code + low, all->a + low, all->b + low, all->invoke_ns + low,
            all->complete_ns + low, all->info + low,
        };
        int status = MEMORY;
        if (begin(&w, &part, viable, initial)) {
            status = run(&w, steps_each * count + 64, bytes_max);
        }
        int64_t placed = status == FOUND ? w.depth : 0;
        outcomes[k][0] = status;
        outcomes[k][1] = w.depth;
        outcomes[k][2] = w.explored;
        for (int64_t j = 0; j < placed; j++) {
            order[low + j] = low + w.stack[j].operation;
        }
        for (int64_t j = placed; j < count; j++) {
            order[low + j] = -1;
        }
    }
    free(w.block);
    free(w.memo);
}
