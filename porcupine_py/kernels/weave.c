/* The order that a frontier has found: its placements, and what they met on the way. */

#include "frontier.h"

#include <stdlib.h>

/* Count events up to a rank; they are in order. */
static int64_t until(const int64_t *events, int64_t count, int64_t rank)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (events[middle] <= rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct woven {
    int64_t count;   /* placements */
    int64_t *placed; /* operations */
    int64_t *events; /* at which they were placed */
    int64_t *state;  /* before each, and after the last */
    int64_t *gap;    /* of each operation: twice the gap, +1 at its end; PLACED; -1 */
    int64_t *starts; /* of the gaps in the order */
};

#define PLACED (-2)

/* Find the gap of an open operation; -1: it has none. */
static int64_t gap_of(const struct frontier *f, const struct woven *w, int32_t i)
{
    const struct history *h = &f->history;
    int64_t low = until(w->events, w->count, f->call[i]);
    int64_t high = until(w->events, w->count, f->ret[i]);
    for (int64_t g = low; g <= high; g++) {
        bool met = (h->code[i] == READ && w->state[g] == h->a[i]) ||
                   (h->code[i] == NOT && w->state[g] != h->a[i]);
        if (met || (h->code[i] == WRITE && w->state[g] == h->b[i])) {
            return 2 * g;
        }
        if (h->code[i] == WRITE && g < high && h->code[w->placed[g]] == WRITE) {
            return 2 * g + 1;
        }
    }
    return -1;
}

static int64_t woven(const struct frontier *f, struct woven *w, int64_t *order)
{
    int32_t n = f->history.count;
    int64_t m = w->count, at = m, total = m;
    for (int64_t node = f->rows.rows[NODE]; node >= 0; node = f->nodes[node].parent) {
        at--;
        w->placed[at] = f->nodes[node].operation;
        w->events[at] = f->nodes[node].event;
    }
    for (int32_t i = 0; i < n; i++) {
        w->gap[i] = -1;
    }
    w->state[0] = f->initial;
    for (int64_t g = 0; g < m; g++) {
        w->state[g + 1] = f->history.b[w->placed[g]];
        w->gap[w->placed[g]] = PLACED;
        w->starts[2 * g + 2]++; /* each placement stands at the end of its gap */
    }
    for (int32_t i = 0; i < n; i++) {
        if (!f->history.info[i] && w->gap[i] != PLACED) {
            w->gap[i] = gap_of(f, w, i);
            if (w->gap[i] < 0) {
                return -1;
            }
            w->starts[w->gap[i] + 1]++;
            total++;
        }
    }
    for (int64_t g = 0; g < 2 * m + 3; g++) {
        w->starts[g + 1] += w->starts[g];
    }
    for (int32_t i = 0; i < n; i++) {
        if (w->gap[i] >= 0) {
            order[w->starts[w->gap[i]]++] = i;
        }
    }
    for (int64_t g = 0; g < m; g++) {
        order[w->starts[2 * g + 1]] = w->placed[g];
    }
    return total;
}

/* Write the whole order: the placements of the first row, and between them what they met.

   Gap g lies after placement g (gap 0 before the first); it is open from the event of placement g
   to that of the next. An open read goes to the first gap with a state that meets it, a write to the
   first one before another write, or in which its value is there anyway. Returns how many operations
   stand in it; -1 when some operation has no gap, which would be a fault of the frontier, -2 when
   there is no memory. */
EXPORT int64_t frontier_order(const struct frontier *f, int64_t *order)
{
    int64_t m = 0, n = f->history.count;
    for (int64_t node = f->rows.rows[NODE]; node >= 0; node = f->nodes[node].parent) {
        m++;
    }
    int64_t *room = calloc((size_t)(5 * m + n + 8), sizeof *room);
    if (room == NULL) {
        return -2;
    }
    struct woven w = {
        m, room, room + m, room + 2 * m, room + 3 * m + 1, room + 3 * m + 1 + n,
    };
    int64_t total = woven(f, &w, order);
    free(room);
    return total;
}
