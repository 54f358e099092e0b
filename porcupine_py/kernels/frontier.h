/* What a frontier keeps, from one chunk of its work to the next (frontier.c). */

#ifndef KRAFTPROBE_FRONTIER_H
#define KRAFTPROBE_FRONTIER_H

#include "antichain.h"
#include "operations.h"

struct frontier {
    struct history history; /* states are small numbers, below `values` */
    int64_t initial;        /* the first of the initial states */
    struct shape shape;

    /* Classes: operations with an effect that would do the same. */
    int32_t *class_of;         /* of each operation, -1: none */
    int32_t *members, *starts; /* as in operations.h */
    int32_t *counter;          /* column that counts spent indeterminate ones, -1: none */
    int32_t *spare, *first;    /* indeterminate operations, by counter */
    int32_t *heads, *after;    /* classes of cas from a state, linked */

    /* What is open at the event. */
    int32_t *call, *ret, *entries; /* as in operations.h */
    int32_t entry_count;
    int32_t *available;      /* of each counter, indeterminate operations that were called */
    int32_t *slot_of;        /* of each operation */
    int32_t *holder;         /* operation in each slot, -1: none */
    int32_t *queue, *behind; /* open slots of a class, by return, linked */
    int64_t *reads, *writes, *nots; /* of each state, masks of open slots */
    int64_t *every_write, *every_not;
    int32_t *live, *place_of; /* classes of writes to try; where each stands among them, -1 */
    int32_t live_count;

    struct pool rows;          /* the frontier; links unused */
    struct pool done, waiting; /* while it is expanded */
    int64_t *done_heads, *waiting_heads;
    struct node *nodes; /* the log of placements */
    int64_t nodes_room, nodes_used;
    int64_t *row; /* scratch */

    int32_t event; /* the entry at which it stands */
    int64_t current, done_count, waiting_count, next; /* rows */
    int64_t explored;
    bool expanding, truncated;
};

#endif
