/* Registers by a frontier of configurations: in order of time, all that can be and is of use.

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
   slot is a place that an open operation holds from its call to its return. `frontier_run` works in
   chunks, and goes on where it stopped. */

#include "frontier.h"

#include <stdlib.h>
#include <string.h>

static int64_t bit_of(int32_t slot)
{
    return INT64_C(1) << (slot % BITS);
}

/* Return a word of the owed slots once the state was reached, by a plain write or otherwise. */
static int64_t owed_after(const struct frontier *f, const int64_t *row, int64_t state, bool plain,
                          int64_t word)
{
    int64_t at = state * f->shape.words + word;
    int64_t met = f->reads[at] | (f->every_not[word] & ~f->nots[at]);
    met |= plain ? f->every_write[word] : f->writes[at];
    return row[MASKS + word] & ~met;
}

/* Let a class of writes be tried from now on. */
static void enliven(struct frontier *f, int32_t k, int8_t code)
{
    if (code == WRITE && f->place_of[k] < 0) {
        f->live[f->live_count] = k;
        f->place_of[k] = f->live_count++;
    }
}

/* No operation of the class is left for now. */
static void end_life(struct frontier *f, int32_t k, int8_t code)
{
    if (code == WRITE) {
        int32_t last = f->live[--f->live_count];
        f->live[f->place_of[k]] = last;
        f->place_of[last] = f->place_of[k];
        f->place_of[k] = -1;
    }
}

/* Set or clear the slot in the masks of what the operation in it is met by. */
static void mask(struct frontier *f, int32_t i, int32_t slot, bool open)
{
    const struct history *h = &f->history;
    int64_t word = slot / BITS, bit = bit_of(slot), words = f->shape.words;
    int64_t *by_state, *every = NULL;
    if (h->code[i] == READ) {
        by_state = &f->reads[h->a[i] * words + word];
    } else if (h->code[i] == NOT) {
        by_state = &f->nots[h->a[i] * words + word];
        every = &f->every_not[word];
    } else if (h->code[i] == WRITE) {
        by_state = &f->writes[h->b[i] * words + word];
        every = &f->every_write[word];
    } else {
        return;
    }
    *by_state = open ? *by_state | bit : *by_state & ~bit;
    if (every != NULL) {
        *every = open ? *every | bit : *every & ~bit;
    }
}

static bool has_effect(int8_t code)
{
    return code != READ && code != NOT;
}

/* Let operation i be open: give it a slot; it is owed where the state does not meet it. */
static void called(struct frontier *f, int32_t i)
{
    const struct history *h = &f->history;
    int8_t code = h->code[i];
    int32_t class = f->class_of[i];
    if (f->ret[i] == NEVER) {
        f->available[f->counter[class]]++;
        enliven(f, class, code);
        return;
    }
    int32_t slot = 0;
    while (f->holder[slot] >= 0) {
        slot++;
    }
    f->holder[slot] = i;
    f->slot_of[i] = slot;
    mask(f, i, slot, true);
    if (has_effect(code)) {
        int32_t at = f->queue[class], before = -1;
        while (at >= 0 && f->ret[f->holder[at]] < f->ret[i]) {
            before = at;
            at = f->behind[at];
        }
        f->behind[slot] = at;
        *(before < 0 ? &f->queue[class] : &f->behind[before]) = slot;
        enliven(f, class, code);
    }
    for (int64_t r = 0; r < f->current; r++) {
        int64_t *row = row_of(&f->rows, &f->shape, r), state = row[STATE];
        bool met = (code == READ && state == h->a[i]) || (code == NOT && state != h->a[i]);
        if (!met && !(code == WRITE && state == h->b[i])) {
            row[MASKS + slot / BITS] |= bit_of(slot);
        }
    }
}

/* Take the slot of operation i back; no row has it any more. */
static void returned(struct frontier *f, int32_t i)
{
    int8_t code = f->history.code[i];
    int32_t slot = f->slot_of[i], class = f->class_of[i];
    mask(f, i, slot, false);
    if (has_effect(code)) {
        int32_t at = f->queue[class], before = -1;
        while (at != slot) {
            before = at;
            at = f->behind[at];
        }
        *(before < 0 ? &f->queue[class] : &f->behind[before]) = f->behind[slot];
        int32_t column = f->counter[class];
        if (f->queue[class] < 0 && (column < 0 || f->available[column] == 0)) {
            end_life(f, class, code);
        }
    }
    f->holder[slot] = -1;
}

static bool double_pools(struct frontier *f)
{
    int64_t room = 2 * f->done.room;
    return pool_resize(&f->done, &f->shape, room) && pool_resize(&f->waiting, &f->shape, room);
}

/* Make room for one more row in what is done and waiting, and for one more node. */
static bool make_room(struct frontier *f)
{
    if (f->nodes_used == f->nodes_room) {
        if (f->nodes_room > INT32_MAX / 2) {
            return false; /* a node is named in 32 bits */
        }
        struct node *nodes = realloc(f->nodes, 2 * (size_t)f->nodes_room * sizeof *nodes);
        if (nodes == NULL) {
            return false;
        }
        f->nodes = nodes;
        f->nodes_room *= 2;
    }
    int64_t used = f->done_count > f->waiting_count ? f->done_count : f->waiting_count;
    return used < f->done.room || double_pools(f);
}

/* Spend an operation of a class in a waiting row: the open one in slot `spend`, or, where that is -1,
   an indeterminate one. The slot of what returns says where the result goes. */
static void spend_one(struct frontier *f, int64_t at, int32_t class, int32_t spend, int32_t returning)
{
    const struct history *h = &f->history;
    int64_t words = f->shape.words, counted = MASKS + 2 * words;
    int32_t model = f->members[f->starts[class]], column = f->counter[class], i;
    bool plain = h->code[model] == WRITE, idle = plain || spend < 0;
    int64_t *row = f->row, state = h->b[model];
    memcpy(row, row_of(&f->waiting, &f->shape, at), (size_t)f->shape.width * sizeof *row);
    row[STATE] = state;
    for (int64_t w = 0; w < words; w++) {
        int64_t left = owed_after(f, row, state, plain, w);
        int64_t met = row[MASKS + w] & ~left;
        idle = idle && (met & ~f->every_write[w]) == 0;
        row[MASKS + w] = left;
    }
    row[IDLE] = idle;
    if (spend >= 0) {
        i = f->holder[spend];
        row[MASKS + spend / BITS] &= ~bit_of(spend);
        row[MASKS + words + spend / BITS] |= bit_of(spend);
    } else {
        i = f->spare[f->first[column] + row[counted + column]++];
    }
    f->nodes[f->nodes_used] = (struct node){(int32_t)row[NODE], i, f->event};
    row[NODE] = f->nodes_used;
    bool resource = h->code[f->holder[returning]] == WRITE, kept = false;
    int64_t word = returning / BITS, bit = bit_of(returning);
    bool owed = row[MASKS + word] & bit, spent = row[MASKS + words + word] & bit;
    if (owed || (resource && !spent)) {
        int64_t grown =
            antichain_add(&f->waiting, &f->shape, f->waiting_count, f->waiting_heads, row);
        kept = grown > f->waiting_count;
        f->waiting_count = grown;
    }
    if (!owed) {
        row[MASKS + words + word] &= ~bit;
        int64_t grown = antichain_add(&f->done, &f->shape, f->done_count, f->done_heads, row);
        kept = kept || grown > f->done_count;
        f->done_count = grown;
    }
    f->nodes_used += kept;
}

/* Spend one operation more, in every way, from a waiting row; false where memory is out. */
static bool expand(struct frontier *f, int64_t at, int64_t bytes_max)
{
    int64_t words = f->shape.words, counted = MASKS + 2 * words;
    int32_t returning = f->slot_of[f->entries[f->event] - f->history.count];
    const int64_t *from = row_of(&f->waiting, &f->shape, at);
    /* After an idle step a plain write would do the same without it. */
    int32_t writes_left = from[IDLE] ? 0 : f->live_count;
    int32_t k = f->heads[from[STATE]];
    while (writes_left > 0 || k >= 0) {
        int32_t chosen = k;
        if (writes_left > 0) {
            chosen = f->live[--writes_left];
        } else {
            k = f->after[k];
        }
        from = row_of(&f->waiting, &f->shape, at);
        /* Equal operations: the one that returns first, and open ones before indeterminate. */
        int32_t spend = f->queue[chosen], column = f->counter[chosen];
        while (spend >= 0 && from[MASKS + words + spend / BITS] & bit_of(spend)) {
            spend = f->behind[spend];
        }
        if (spend >= 0 || (column >= 0 && from[counted + column] < f->available[column])) {
            if (!make_room(f)) {
                return false;
            }
            spend_one(f, at, chosen, spend, returning);
        }
    }
    int64_t used = (2 * f->done.room + f->rows.room) * 8 * (f->shape.width + 1);
    return used + 12 * f->nodes_room < bytes_max;
}

/* Sort rows into done and waiting, if any owes or spent what returns; else do nothing.

   A plain write that a row neither owes nor spent is a `resource` that ends now: it may go unused
   (done), or be placed now (waiting). False where there is no memory. */
static bool begin_return(struct frontier *f, int32_t slot, bool resource)
{
    int64_t words = f->shape.words, bit = bit_of(slot);
    int64_t at_owed = MASKS + slot / BITS, at_spent = at_owed + words;
    bool touched = resource;
    for (int64_t r = 0; r < f->current && !touched; r++) {
        const int64_t *row = row_of(&f->rows, &f->shape, r);
        touched = (row[at_owed] | row[at_spent]) & bit;
    }
    if (!touched) {
        return true;
    }
    f->done_count = f->waiting_count = f->next = 0;
    f->expanding = true;
    while (f->done.room < f->current + 1) {
        if (!double_pools(f)) {
            return false;
        }
    }
    for (int64_t r = 0; r < f->current; r++) {
        int64_t *row = row_of(&f->rows, &f->shape, r);
        bool owed = row[at_owed] & bit, spent = row[at_spent] & bit;
        row[IDLE] = 0;
        if (owed || (resource && !spent)) {
            f->waiting_count =
                antichain_add(&f->waiting, &f->shape, f->waiting_count, f->waiting_heads, row);
        }
        if (!owed) {
            row[at_spent] &= ~bit;
            f->done_count =
                antichain_add(&f->done, &f->shape, f->done_count, f->done_heads, row);
        }
    }
    return true;
}

/* What is done is the new frontier, narrowed where it is too wide; false where there is no memory. */
static bool end_return(struct frontier *f, int64_t width_max)
{
    for (int64_t r = 0; r < f->waiting_count; r++) {
        f->waiting_heads[row_of(&f->waiting, &f->shape, r)[STATE]] = -1;
    }
    for (int64_t r = 0; r < f->done_count; r++) {
        f->done_heads[row_of(&f->done, &f->shape, r)[STATE]] = -1;
    }
    if (f->rows.room < f->done_count && !pool_resize(&f->rows, &f->shape, f->done.room)) {
        return false;
    }
    int64_t count = 0;
    for (int64_t r = 0; r < f->done_count; r++) {
        if (f->done.link[r] != DROPPED) {
            memcpy(row_of(&f->rows, &f->shape, count++), row_of(&f->done, &f->shape, r),
                   (size_t)f->shape.width * sizeof(int64_t));
        }
    }
    if (count > width_max) {
        if (!narrow(&f->rows, &f->shape, count, width_max)) {
            return false;
        }
        count = width_max;
        f->truncated = true;
    }
    f->current = count;
    f->expanding = false;
    if (2 * f->nodes_used > f->nodes_room) {
        int64_t kept = compact(&f->rows, &f->shape, count, f->nodes, f->nodes_used);
        if (kept < 0) {
            return false;
        }
        f->nodes_used = kept;
    }
    return true;
}

/* Go on for about `steps` configurations, with at most `width_max` at a time; returns the status. */
EXPORT int32_t frontier_run(struct frontier *f, int64_t width_max, int64_t steps, int64_t bytes_max)
{
    int32_t n = f->history.count;
    while (steps > 0) {
        if (f->event == f->entry_count) {
            return FOUND;
        }
        int32_t entry = f->entries[f->event];
        steps -= 1 + f->current / 8;
        if (entry < n) {
            called(f, entry);
            f->event++;
            continue;
        }
        if (!f->expanding) {
            if (!begin_return(f, f->slot_of[entry - n], f->history.code[entry - n] == WRITE)) {
                return MEMORY;
            }
        }
        if (f->expanding) {
            for (; f->next < f->waiting_count; f->next++) {
                if (steps <= 0) {
                    return RUNNING;
                }
                if (f->waiting.link[f->next] == DROPPED) {
                    continue;
                }
                if (f->waiting_count > 8 * width_max && f->done_count > 0) {
                    f->truncated = true;
                    break;
                }
                steps -= 1 + (f->waiting_count + f->done_count) / 64;
                f->explored++;
                if (!expand(f, f->next, bytes_max)) {
                    return MEMORY;
                }
            }
            if (!end_return(f, width_max)) {
                return MEMORY;
            }
            if (f->current == 0) {
                return f->truncated ? DIED : NONE;
            }
        }
        returned(f, entry - n);
        f->event++;
    }
    return RUNNING;
}
