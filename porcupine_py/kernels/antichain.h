/* Rows of the frontier: which dominates which, and pools that grow.

   A row is a configuration: state, node of the log of placements, a mark, masks of owed and of spent
   slots, and how many indeterminate operations of each class were spent. */

#ifndef KRAFTPROBE_ANTICHAIN_H
#define KRAFTPROBE_ANTICHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slots in a word of a mask. */
#define BITS 63

/* Columns of a row; the words of masks begin at the last: `words` of owed, then as many of spent. */
enum { STATE, NODE, IDLE, MASKS };

struct pool {
    int64_t *rows;
    int64_t *link; /* the next row with the same state, -1: none; DROPPED */
    int64_t room;  /* rows */
};

#define DROPPED (-2)

struct shape {
    int64_t words; /* of a mask */
    int64_t width; /* columns of a row */
};

struct node {
    int32_t parent; /* -1: none */
    int32_t operation;
    int32_t event;
};

static inline int64_t *row_of(const struct pool *pool, const struct shape *shape, int64_t r)
{
    return pool->rows + r * shape->width;
}

/* Let a pool have room for so many rows; false where there is no memory. */
bool pool_resize(struct pool *pool, const struct shape *shape, int64_t room);

/* Add a row to an antichain unless another dominates it; drop those that it dominates.

   `heads`: of each state, the first row. Returns the new count; a row that is not added leaves it as
   it is. The pool has room for one more. */
int64_t antichain_add(struct pool *pool, const struct shape *shape, int64_t count, int64_t *heads,
                      const int64_t *row);

/* Forget placements that no row rests on; parents stand before children. Returns how many are left,
   -1 where there is no memory. */
int64_t compact(struct pool *pool, const struct shape *shape, int64_t count, struct node *nodes,
                int64_t used);

/* Keep the `width_max` rows that owe and spent least; equal ones in their order. False where there is
   no memory. */
bool narrow(struct pool *pool, const struct shape *shape, int64_t count, int64_t width_max);

#endif
