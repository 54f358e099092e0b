#include "frontier.h"

#include <stdlib.h>

/* Rows for which pools have room at first. */
enum { ROWS_FIRST = 64 };

EXPORT void frontier_free(struct frontier *f)
{
    if (f == NULL) {
        return;
    }
    void *all[] = {
        f->class_of, f->members, f->starts, f->counter, f->spare, f->first, f->heads, f->after,
        f->call, f->ret, f->entries, f->available, f->slot_of, f->holder, f->queue, f->behind,
        f->reads, f->writes, f->nots, f->every_write, f->every_not, f->live, f->place_of,
        f->rows.rows, f->rows.link, f->done.rows, f->done.link, f->waiting.rows, f->waiting.link,
        f->done_heads, f->waiting_heads, f->nodes, f->row, f,
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        free(all[k]);
    }
}

/* An array of one value; NULL where there is no memory. */
static int32_t *filled(int64_t count, int32_t value)
{
    int32_t *array = malloc((size_t)(count + 1) * sizeof *array);
    for (int64_t k = 0; array != NULL && k < count; k++) {
        array[k] = value;
    }
    return array;
}

static int64_t *filled_long(int64_t count, int64_t value)
{
    int64_t *array = malloc((size_t)(count + 1) * sizeof *array);
    for (int64_t k = 0; array != NULL && k < count; k++) {
        array[k] = value;
    }
    return array;
}

static bool has_effect(const struct history *h, int32_t i)
{
    return h->code[i] == WRITE || h->code[i] == CAS;
}

static bool begin_time(struct frontier *f)
{
    int32_t n = f->history.count;
    int32_t *returns = filled(n, 0);
    f->entries = filled(2 * (int64_t)n, 0);
    f->call = filled(n, 0);
    f->ret = filled(n, 0);
    if (returns && f->entries && f->call && f->ret) {
        f->entry_count = lay_out(&f->history, returns, f->entries, f->call, f->ret);
    }
    free(returns);
    return returns && f->entries && f->call && f->ret;
}

/* Group what has an effect; returns how many classes there are, -1 where there is no memory. */
static int32_t begin_classes(struct frontier *f)
{
    const struct history *h = &f->history;
    int32_t n = h->count, count = 0, found = -1;
    int32_t *effects = filled(n, 0);
    for (int32_t i = 0; effects && i < n; i++) {
        if (has_effect(h, i)) {
            effects[count++] = i;
        }
    }
    int32_t *scratch = filled((int64_t)classes_scratch(count), 0);
    f->members = filled(count, 0);
    f->starts = filled((int64_t)count + 2, 0);
    f->class_of = filled(n, -1);
    if (effects && scratch && f->members && f->starts && f->class_of) {
        found = classes(h, effects, count, scratch, f->members, f->starts);
        for (int32_t k = 0; k < found; k++) {
            for (int32_t place = f->starts[k]; place < f->starts[k + 1]; place++) {
                f->class_of[f->members[place]] = k;
            }
        }
    }
    free(effects);
    free(scratch);
    return found;
}

/* Give each class with indeterminate operations a counter; returns how many, -1: no memory. */
static int32_t begin_counters(struct frontier *f, int32_t class_count)
{
    const struct history *h = &f->history;
    int32_t counters = 0, hidden = 0;
    f->counter = filled(class_count, -1);
    if (f->counter == NULL) {
        return -1;
    }
    for (int32_t k = 0; k < class_count; k++) {
        for (int32_t place = f->starts[k]; place < f->starts[k + 1]; place++) {
            if (h->info[f->members[place]]) {
                hidden++;
                f->counter[k] = f->counter[k] < 0 ? counters++ : f->counter[k];
            }
        }
    }
    f->spare = filled((int64_t)hidden + 1, -1);
    f->first = filled((int64_t)counters + 1, 0);
    f->available = filled((int64_t)counters + 1, 0);
    if (!f->spare || !f->first || !f->available) {
        return -1;
    }
    int32_t *fill = f->available; /* for a moment: where the next one of each counter goes */
    for (int32_t i = 0; i < h->count; i++) {
        if (h->info[i] && has_effect(h, i)) {
            f->first[f->counter[f->class_of[i]] + 1]++;
        }
    }
    for (int32_t j = 0; j < counters; j++) {
        f->first[j + 1] += f->first[j];
        fill[j] = f->first[j];
    }
    for (int32_t i = 0; i < h->count; i++) {
        if (h->info[i] && has_effect(h, i)) {
            f->spare[fill[f->counter[f->class_of[i]]]++] = i;
        }
    }
    for (int32_t j = 0; j < counters; j++) {
        fill[j] = 0;
    }
    return counters;
}

static int32_t most_open(const struct frontier *f)
{
    int32_t most = 0, now = 0;
    for (int32_t k = 0; k < f->entry_count; k++) {
        int32_t entry = f->entries[k];
        if (entry >= f->history.count) {
            now--;
        } else if (!f->history.info[entry]) {
            most = ++now > most ? now : most;
        }
    }
    return most;
}

static bool begin_open(struct frontier *f, int32_t class_count, int64_t values)
{
    int64_t words = f->shape.words;
    f->heads = filled(values, -1);
    f->after = filled((int64_t)class_count + 1, -1);
    f->slot_of = filled(f->history.count, -1);
    f->holder = filled(words * BITS, -1);
    f->queue = filled((int64_t)class_count + 1, -1);
    f->behind = filled(words * BITS, -1);
    f->live = filled((int64_t)class_count + 1, -1);
    f->place_of = filled((int64_t)class_count + 1, -1);
    f->reads = filled_long(values * words, 0);
    f->writes = filled_long(values * words, 0);
    f->nots = filled_long(values * words, 0);
    f->every_write = filled_long(words, 0);
    f->every_not = filled_long(words, 0);
    f->done_heads = filled_long(values, -1);
    f->waiting_heads = filled_long(values, -1);
    f->row = filled_long(f->shape.width, 0);
    f->nodes_room = 1024;
    f->nodes = malloc((size_t)f->nodes_room * sizeof *f->nodes);
    if (!f->heads || !f->after || !f->slot_of || !f->holder || !f->queue || !f->behind ||
        !f->live || !f->place_of || !f->reads || !f->writes || !f->nots || !f->every_write ||
        !f->every_not || !f->done_heads || !f->waiting_heads || !f->row || !f->nodes) {
        return false;
    }
    for (int32_t k = class_count - 1; k >= 0; k--) {
        int32_t i = f->members[f->starts[k]];
        if (f->history.code[i] == CAS) {
            f->after[k] = f->heads[f->history.a[i]];
            f->heads[f->history.a[i]] = k;
        }
    }
    return true;
}

/* Bytes of what grows with the product of two numbers: masks of every state, and the first rows. */
static double product_bytes(const struct frontier *f, int64_t state_count, int64_t values)
{
    double masks = 3.0 * (double)values * (double)f->shape.words;
    double rows = (double)(2 * ROWS_FIRST + (state_count > ROWS_FIRST ? state_count : ROWS_FIRST));
    return 8.0 * (masks + rows * (double)(f->shape.width + 1));
}

static bool begin(struct frontier *f, const int64_t *states, int64_t state_count, int64_t values,
                  int64_t bytes_max)
{
    if (!begin_time(f)) {
        return false;
    }
    int32_t class_count = begin_classes(f);
    int32_t counters = class_count < 0 ? -1 : begin_counters(f, class_count);
    if (counters < 0) {
        return false;
    }
    f->shape.words = most_open(f) / BITS + 1;
    f->shape.width = MASKS + 2 * f->shape.words + counters;
    if (product_bytes(f, state_count, values) > (double)bytes_max ||
        !begin_open(f, class_count, values) ||
        !pool_resize(&f->rows, &f->shape, state_count > ROWS_FIRST ? state_count : ROWS_FIRST) ||
        !pool_resize(&f->done, &f->shape, ROWS_FIRST) ||
        !pool_resize(&f->waiting, &f->shape, ROWS_FIRST)) {
        return false;
    }
    for (int64_t j = 0; j < state_count; j++) {
        int64_t *row = row_of(&f->rows, &f->shape, j);
        for (int64_t column = 0; column < f->shape.width; column++) {
            row[column] = 0;
        }
        row[STATE] = states[j];
        row[NODE] = -1;
    }
    f->initial = state_count ? states[0] : -1;
    f->current = state_count;
    return true;
}

/* A frontier that begins in any of some states; NULL where there is no memory, or where it would take
   more than `bytes_max` already. All that operations need and make, and the states, are small numbers
   below `values`. The arrays must outlive it. */
EXPORT struct frontier *frontier_new(const struct history *history, const int64_t *states,
                                     int64_t state_count, int64_t values, int64_t bytes_max)
{
    struct frontier *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->history = *history;
        if (!begin(f, states, state_count, values, bytes_max)) {
            frontier_free(f);
            return NULL;
        }
    }
    return f;
}

/* Report (configurations expanded, whether some were thrown away, the operation at the return of
   which it stands or the next one, -1: none). */
EXPORT void frontier_report(const struct frontier *f, int64_t *report)
{
    report[0] = f->explored;
    report[1] = f->truncated;
    report[2] = -1;
    for (int32_t k = f->event; k < f->entry_count; k++) {
        if (f->entries[k] >= f->history.count) {
            report[2] = f->entries[k] - f->history.count;
            return;
        }
    }
}
