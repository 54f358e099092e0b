/* The verifier of orders of registers as one loop; porcupine_py/search/replay.py says what it
   checks.

   Each operation is taken in its place, as a reader would: was it there already, is its key's turn,
   did it happen, had it completed before one that stands earlier was invoked, does it fit the
   value. */

#include "operations.h"

#include <stdlib.h>

enum { ACCEPTED, TWICE, MISSING, UNREAL, MIXED, EARLY, UNFIT, NO_MEMORY };

/* porcupine_py.columns.OK, FAIL, INFO */
enum { OK, FAIL, INFO };

/* The columns of a history of `count` rows and `keys` keys. */
struct columns {
    int64_t count, keys;
    const int32_t *key;
    const int8_t *type;
    const int16_t *f;
    const int32_t *error, *given, *expected, *shown;
    const int64_t *invoke_ns, *complete_ns;
    const uint8_t *refusals; /* of each error, whether a compare-and-set with it was refused */
    int64_t read, write, cas, initial; /* codes of the functions, and of the first value */
};

static bool is_refused(const struct columns *c, int64_t row)
{
    return c->type[row] == FAIL && c->f[row] == c->cas && c->refusals[c->error[row]];
}

static bool must_be_placed(const struct columns *c, int64_t row)
{
    int16_t f = c->f[row];
    return is_refused(c, row) ||
           (c->type[row] == OK && (f == c->read || f == c->write || f == c->cas));
}

static int replayed(const struct columns *c, const int64_t *order, int64_t count,
                    const uint8_t *judged, uint8_t *placed, uint8_t *begun, int64_t *where)
{
    for (int64_t k = 0; k < count; k++) {
        int64_t row = order[k];
        *where = k;
        if (row < 0 || row >= c->count || placed[row]) {
            return TWICE;
        }
        placed[row] = 1;
    }
    for (int64_t row = 0; row < c->count; row++) {
        if (!placed[row] && judged[c->key[row]] && must_be_placed(c, row)) {
            *where = row;
            return MISSING;
        }
    }
    int64_t key = -1, highest = -1, state = c->initial;
    for (int64_t k = 0; k < count; k++) {
        int64_t row = *where = order[k];
        int16_t f = c->f[row];
        bool may = c->type[row] == INFO && (f == c->write || f == c->cas);
        if (!may && !(judged[c->key[row]] && must_be_placed(c, row))) {
            return UNREAL;
        }
        if (c->key[row] != key) {
            key = c->key[row];
            if (begun[key]) {
                return MIXED;
            }
            begun[key] = 1;
            highest = row;
            state = c->initial;
        }
        highest = row > highest ? row : highest;
        if (c->complete_ns[row] < c->invoke_ns[highest]) {
            return EARLY;
        }
        if (f == c->read) {
            if (c->shown[row] != state) {
                return UNFIT;
            }
        } else if (f == c->write) {
            state = c->given[row];
        } else {
            bool refused = is_refused(c, row);
            if ((c->expected[row] == state) == refused) {
                return UNFIT;
            }
            state = refused ? state : c->given[row];
        }
    }
    return ACCEPTED;
}

/* Accept an order, rows that are grouped by key, or say what is wrong, and `where`: at which row, or
   for TWICE at which place. `judged`: of each key, whether its operations must be there. */
EXPORT int32_t replay(const struct columns *columns, const int64_t *order, int64_t count,
                      const uint8_t *judged, int64_t *where)
{
    uint8_t *seen = calloc((size_t)(columns->count + columns->keys) + 1, 1);
    if (seen == NULL) {
        return NO_MEMORY;
    }
    int status = replayed(columns, order, count, judged, seen, seen + columns->count, where);
    free(seen);
    return status;
}
