#include "antichain.h"

#include <stdlib.h>
#include <string.h>

static size_t row_bytes(const struct shape *shape)
{
    return (size_t)shape->width * sizeof(int64_t);
}

bool pool_resize(struct pool *pool, const struct shape *shape, int64_t room)
{
    int64_t *rows = realloc(pool->rows, (size_t)room * row_bytes(shape));
    pool->rows = rows == NULL ? pool->rows : rows;
    int64_t *link = realloc(pool->link, (size_t)room * sizeof *link);
    pool->link = link == NULL ? pool->link : link;
    if (rows == NULL || link == NULL) {
        return false;
    }
    pool->room = room;
    return true;
}

/* Return whether whatever `other` can still do, `row` can (same state). */
static bool dominates(const int64_t *row, const int64_t *other, const struct shape *shape)
{
    int64_t counted = MASKS + 2 * shape->words;
    for (int64_t j = MASKS; j < counted; j++) {
        if (row[j] & ~other[j]) {
            return false;
        }
    }
    for (int64_t j = counted; j < shape->width; j++) {
        if (row[j] > other[j]) {
            return false;
        }
    }
    return true;
}

int64_t antichain_add(struct pool *pool, const struct shape *shape, int64_t count, int64_t *heads,
                      const int64_t *row)
{
    int64_t state = row[STATE], before = -1;
    for (int64_t at = heads[state]; at >= 0;) {
        const int64_t *other = row_of(pool, shape, at);
        if (dominates(other, row, shape)) {
            return count;
        }
        int64_t following = pool->link[at];
        if (dominates(row, other, shape)) {
            if (before < 0) {
                heads[state] = following;
            } else {
                pool->link[before] = following;
            }
            pool->link[at] = DROPPED;
        } else {
            before = at;
        }
        at = following;
    }
    memcpy(row_of(pool, shape, count), row, row_bytes(shape));
    pool->link[count] = heads[state];
    heads[state] = count;
    return count + 1;
}

int64_t compact(struct pool *pool, const struct shape *shape, int64_t count, struct node *nodes,
                int64_t used)
{
    int32_t *place = calloc((size_t)used + 1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    for (int64_t r = 0; r < count; r++) {
        int64_t node = row_of(pool, shape, r)[NODE];
        if (node >= 0) {
            place[node] = 1;
        }
    }
    for (int64_t j = used - 1; j >= 0; j--) {
        if (place[j] && nodes[j].parent >= 0) {
            place[nodes[j].parent] = 1;
        }
    }
    int32_t kept = 0;
    for (int64_t j = 0; j < used; j++) {
        if (place[j]) {
            int32_t parent = nodes[j].parent >= 0 ? place[nodes[j].parent] : -1;
            nodes[kept] = (struct node){parent, nodes[j].operation, nodes[j].event};
            place[j] = kept++;
        }
    }
    for (int64_t r = 0; r < count; r++) {
        int64_t *row = row_of(pool, shape, r);
        if (row[NODE] >= 0) {
            row[NODE] = place[row[NODE]];
        }
    }
    free(place);
    return kept;
}

static int64_t cost_of(const int64_t *row, const struct shape *shape)
{
    int64_t counted = MASKS + 2 * shape->words, cost = 0;
    for (int64_t j = MASKS; j < counted; j++) {
        cost += __builtin_popcountll((unsigned long long)row[j]);
    }
    for (int64_t j = counted; j < shape->width; j++) {
        cost += row[j];
    }
    return cost;
}

bool narrow(struct pool *pool, const struct shape *shape, int64_t count, int64_t width_max)
{
    int64_t *cost = malloc((size_t)count * sizeof *cost), highest = 0;
    if (cost == NULL) {
        return false;
    }
    for (int64_t r = 0; r < count; r++) {
        cost[r] = cost_of(row_of(pool, shape, r), shape);
        highest = cost[r] > highest ? cost[r] : highest;
    }
    int64_t *how_many = calloc((size_t)highest + 1, sizeof *how_many);
    if (how_many == NULL) {
        free(cost);
        return false;
    }
    for (int64_t r = 0; r < count; r++) {
        how_many[cost[r]]++;
    }
    int64_t most = 0, below = 0, kept = 0;
    while (below + how_many[most] <= width_max) {
        below += how_many[most++];
    }
    for (int64_t r = 0; r < count; r++) {
        if (cost[r] < most || (cost[r] == most && below < width_max)) {
            below += cost[r] == most;
            memmove(row_of(pool, shape, kept++), row_of(pool, shape, r), row_bytes(shape));
        }
    }
    free(cost);
    free(how_many);
    return true;
}
