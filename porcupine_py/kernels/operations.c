#include "operations.h"

#include <string.h>

/* Sort operations by completion, stably. Returns false where they are too far from order. */
static bool insertion_sorted(const struct history *h, int32_t *returns, int32_t *found)
{
    const int64_t *complete = h->complete_ns;
    const int64_t most = 300 * (int64_t)h->count + 1000;
    int64_t moves = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < h->count; i++) {
        if (h->info[i]) {
            continue;
        }
        int32_t j = count;
        while (j > 0 && complete[returns[j - 1]] > complete[i]) {
            returns[j] = returns[j - 1];
            j--;
        }
        returns[j] = i;
        moves += count - j;
        count++;
        if (moves > most) {
            return false;
        }
    }
    *found = count;
    return true;
}

/* The same by Shell's sort, which does not mind how far they are from order. */
static int32_t shell_sorted(const struct history *h, int32_t *returns)
{
    const int64_t *complete = h->complete_ns;
    int32_t count = 0;
    for (int32_t i = 0; i < h->count; i++) {
        if (!h->info[i]) {
            returns[count++] = i;
        }
    }
    int32_t gap = count / 2;
    while (gap > 0) {
        for (int32_t k = gap; k < count; k++) {
            int32_t i = returns[k], j = k;
            while (j >= gap && complete[returns[j - gap]] > complete[i]) {
                returns[j] = returns[j - gap];
                j -= gap;
            }
            returns[j] = i;
        }
        gap = gap == 2 ? 1 : (int32_t)((int64_t)gap * 5 / 11);
    }
    return count;
}

int32_t lay_out(const struct history *h, int32_t *returns, int32_t *entries, int32_t *call,
                int32_t *ret)
{
    int32_t n = h->count, count = 0;
    if (!insertion_sorted(h, returns, &count)) {
        count = shell_sorted(h, returns);
    }
    for (int32_t i = 0; i < n; i++) {
        ret[i] = NEVER;
    }
    int32_t i = 0, j = 0, rank = 0;
    for (; i < n || j < count; rank++) {
        if (i < n && (j >= count || h->invoke_ns[i] <= h->complete_ns[returns[j]])) {
            entries[rank] = i;
            call[i++] = rank;
        } else {
            entries[rank] = n + returns[j];
            ret[returns[j++]] = rank;
        }
    }
    return rank;
}

static int32_t class_slots(int32_t count)
{
    int32_t slots = 16;
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

size_t classes_scratch(int32_t count)
{
    return (size_t)class_slots(count) + 2 * (size_t)count;
}

int32_t classes(const struct history *h, const int32_t *chosen, int32_t count, int32_t *scratch,
                int32_t *members, int32_t *starts)
{
    int32_t slots = class_slots(count), found = 0;
    int32_t *table = scratch;           /* class, by hash */
    int32_t *class_of = scratch + slots;
    int32_t *model = class_of + count;  /* the first member of each class */
    for (int32_t k = 0; k < slots; k++) {
        table[k] = -1;
    }
    memset(starts, 0, ((size_t)count + 2) * sizeof *starts);
    for (int32_t k = 0; k < count; k++) {
        int32_t i = chosen[k];
        uint64_t hashed = mix((uint64_t)h->code[i]);
        hashed = mix(mix(hashed ^ (uint64_t)h->a[i]) ^ (uint64_t)h->b[i]);
        int32_t at = (int32_t)(hashed & (uint64_t)(slots - 1));
        while (table[at] >= 0) {
            int32_t other = model[table[at]];
            if (h->code[i] == h->code[other] && h->a[i] == h->a[other] && h->b[i] == h->b[other]) {
                break;
            }
            at = (at + 1) & (slots - 1);
        }
        if (table[at] < 0) {
            table[at] = found;
            model[found++] = i;
        }
        class_of[k] = table[at];
        starts[table[at] + 2]++;
    }
    for (int32_t k = 0; k < found; k++) {
        starts[k + 2] += starts[k + 1];
    }
    for (int32_t k = 0; k < count; k++) {
        members[starts[class_of[k] + 1]++] = chosen[k];
    }
    return found;
}

/* The digest of the sources of this library (build.py). */
EXPORT const char *digest_of_sources(void)
{
    return SOURCES;
}
