/* Loops behind the rules in columns that NumPy has no words for; theory in
   porcupine_py/search/rules.

   Nothing here is believed: whatever order comes out is verified (replay_types.py). */

#include "operations.h"

#include <stdlib.h>

/* When a value went in, or came out: not before `from`, not after `by`; and the orders of these. */
struct spans {
    const int64_t *from, *by, *by_from, *by_by;
};

/* Let values be placed of which one end may be now; those of which both may are. */
static void release(const struct spans *spans, int64_t count, int64_t latest, int64_t *next,
                    int8_t *free_ends, int64_t *order, int64_t *placed)
{
    while (*next < count && spans->from[spans->by_from[*next]] <= latest) {
        int64_t i = spans->by_from[(*next)++];
        if (++free_ends[i] == 2) {
            order[(*placed)++] = i;
        }
    }
}

/* Sort values so that none precedes one that it must follow. Returns how many are placed: fewer than
   all when there is no such way, -1 where there is no memory. */
EXPORT int64_t fifo(const struct spans *into, const struct spans *out, int64_t count,
                    int64_t *order)
{
    int8_t *free_ends = calloc(2 * (size_t)count + 1, 1);
    if (free_ends == NULL) {
        return -1;
    }
    int8_t *done = free_ends + count;
    int64_t placed = 0, next_into = 0, next_out = 0, first_into = 0, first_out = 0;
    while (placed < count) {
        while (done[into->by_by[first_into]]) {
            first_into++;
        }
        while (done[out->by_by[first_out]]) {
            first_out++;
        }
        int64_t latest_into = into->by[into->by_by[first_into]];
        int64_t latest_out = out->by[out->by_by[first_out]];
        int64_t before = placed;
        release(into, count, latest_into, &next_into, free_ends, order, &placed);
        release(out, count, latest_out, &next_out, free_ends, order, &placed);
        if (placed == before) {
            break;
        }
        for (int64_t k = before; k < placed; k++) {
            done[order[k]] = 1;
        }
    }
    free(free_ends);
    return placed;
}

/* Things in order of (time, segment). */
struct timed {
    const int64_t *ns, *segment;
    int64_t count;
};

/* Write where what goes in (or found nothing), and what comes out, stand in one sequence: what goes in
   stands before what comes out then, and what found nothing behind. */
EXPORT void merged(const struct timed *into, const uint8_t *empty, const struct timed *out,
                   int64_t *at_into, int64_t *at_out)
{
    int64_t i = 0, j = 0;
    while (i < into->count || j < out->count) {
        bool first;
        if (j == out->count) {
            first = true;
        } else if (i == into->count) {
            first = false;
        } else if (into->ns[i] != out->ns[j]) {
            first = into->ns[i] < out->ns[j];
        } else if (into->segment[i] != out->segment[j]) {
            first = into->segment[i] < out->segment[j];
        } else {
            first = !empty[i];
        }
        if (first) {
            at_into[i] = i + j;
            i++;
        } else {
            at_out[j] = i + j;
            j++;
        }
    }
}

struct urgent {
    int64_t due, addition;
};

static bool precedes(struct urgent a, struct urgent b)
{
    return a.due < b.due || (a.due == b.due && a.addition < b.addition);
}

static void push(struct urgent *heap, int64_t at, struct urgent key)
{
    while (at > 0 && precedes(key, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = key;
}

/* Take the first away; `size`: how many are left. */
static void pop(struct urgent *heap, int64_t size)
{
    struct urgent key = heap[size];
    int64_t at = 0;
    while (2 * at + 1 < size) {
        int64_t child = 2 * at + 1;
        if (child + 1 < size && precedes(heap[child + 1], heap[child])) {
            child++;
        }
        if (!precedes(heap[child], key)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

/* Fill the places before reads with additions, the most urgent first (Jackson 1955).

   `due`: for each addition, in order of invocation, the first read that it must precede; `released`:
   for each read how many additions may stand before it; `wanted`: how many must. Returns how many of
   the additions, the first in `order`, have a place; -1 when there is no way, -2: no memory. */
EXPORT int64_t places(const int64_t *due, int64_t count, const int64_t *released,
                      const int64_t *wanted, int64_t reads, int64_t *order)
{
    struct urgent *heap = malloc(((size_t)count + 1) * sizeof *heap);
    int64_t size = 0, taken = 0, known = 0;
    if (heap == NULL) {
        return -2;
    }
    for (int64_t i = 0; i < reads && taken >= 0; i++) {
        for (; known < released[i]; known++) {
            push(heap, size++, (struct urgent){due[known], known});
        }
        while (taken < wanted[i] && size > 0 && heap[0].due >= i) {
            order[taken++] = heap[0].addition;
            pop(heap, --size);
        }
        if (wanted[i] != taken || (size > 0 && heap[0].due <= i)) {
            taken = -1;
        }
    }
    free(heap);
    return taken;
}
