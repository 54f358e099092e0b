/* Values of a stack, nested in words `push x, word, pop x`: the loop behind
   porcupine_py/search/rules/stack.py, where the theory is. */

#include "operations.h"

#include <stdlib.h>
#include <string.h>

/* Covered for ever: a point that split already. */
#define SPLIT (1 << 30)

/* Values looked at for a bottom, for each value. */
#define LOOKS_EACH 400

/* How many values cover each point, as a tree: of a subtree the lowest, without what `added` says
   above it. */
struct tree {
    int64_t size; /* leaves */
    int32_t *lowest, *added;
};

struct todo {
    int64_t first; /* -1: a value comes out */
    int64_t last;  /* point, or value */
};

struct stack {
    struct todo *items;
    int64_t count, room;
};

static bool push(struct stack *stack, int64_t first, int64_t last)
{
    if (stack->count == stack->room) {
        int64_t room = stack->room ? 2 * stack->room : 1024;
        struct todo *items = realloc(stack->items, (size_t)room * sizeof *items);
        if (items == NULL) {
            return false;
        }
        stack->items = items;
        stack->room = room;
    }
    stack->items[stack->count++] = (struct todo){first, last};
    return true;
}

static int32_t lower_child(const struct tree *tree, int64_t node)
{
    int32_t left = tree->lowest[2 * node], right = tree->lowest[2 * node + 1];
    return left < right ? left : right;
}

/* Take one from all points from `low` to `high`. */
static void lower(struct tree *tree, int64_t low, int64_t high)
{
    int64_t left = low + tree->size, right = high + tree->size;
    const int64_t leaves[2] = {left, right};
    while (left <= right) {
        if (left & 1) {
            tree->lowest[left]--;
            tree->added[left]--;
            left++;
        }
        if (!(right & 1)) {
            tree->lowest[right]--;
            tree->added[right]--;
            right--;
        }
        left /= 2;
        right /= 2;
    }
    for (int k = 0; k < 2; k++) {
        for (int64_t node = leaves[k] / 2; node > 0; node /= 2) {
            tree->lowest[node] = lower_child(tree, node) + tree->added[node];
        }
    }
}

/* Return the first point that nothing covers, and let it be SPLIT; -1: there is none. */
static int64_t uncovered(struct tree *tree)
{
    if (tree->lowest[1] != 0) {
        return -1;
    }
    int64_t node = 1;
    while (node < tree->size) {
        int32_t down = tree->added[node];
        for (int64_t child = 2 * node; down != 0 && child <= 2 * node + 1; child++) {
            tree->lowest[child] += down;
            tree->added[child] += down;
        }
        tree->added[node] = 0;
        node = tree->lowest[2 * node] == 0 ? 2 * node : 2 * node + 1;
    }
    int64_t point = node - tree->size;
    tree->lowest[node] = SPLIT;
    for (node /= 2; node > 0; node /= 2) {
        tree->lowest[node] = lower_child(tree, node);
    }
    return point;
}

struct values {
    const int64_t *into_from, *begin, *end, *out_by;
    int64_t count, points;
};

static void grow_tree(const struct values *v, struct tree *tree, int32_t *change)
{
    for (int64_t i = 0; i < v->count; i++) {
        if (v->begin[i] + 1 < v->end[i]) {
            change[v->begin[i] + 1]++;
            change[v->end[i]]--;
        }
    }
    int32_t covering = 0;
    for (int64_t k = 0; k < tree->size; k++) {
        covering += k < v->points ? change[k] : 0;
        tree->lowest[tree->size + k] = k < v->points && covering > 0 ? covering : SPLIT;
    }
    for (int64_t node = tree->size - 1; node > 0; node--) {
        tree->lowest[node] = lower_child(tree, node);
    }
}

struct looking {
    int64_t *start;     /* of each point, the first value that begins there or later */
    int64_t *following; /* of each value, the next that is left, by path halving */
    int64_t *earliest;  /* into_from of this value and all later ones */
    int64_t budget;
};

static void begin_looking(const struct values *v, struct looking *look)
{
    look->budget = LOOKS_EACH * (v->count + 1000);
    for (int64_t k = 0, i = 0; k <= v->points; k++) {
        while (i < v->count && v->begin[i] < k) {
            i++;
        }
        look->start[k] = i;
    }
    for (int64_t i = 0; i <= v->count; i++) {
        look->following[i] = i;
    }
    look->earliest[v->count] = INT64_C(1) << 60;
    for (int64_t i = v->count - 1; i >= 0; i--) {
        int64_t later = look->earliest[i + 1];
        look->earliest[i] = v->into_from[i] < later ? v->into_from[i] : later;
    }
}

enum { EMPTY = -1, NO_BOTTOM = -2 };

/* Find a value that lies below all others of a part. */
static int64_t bottom_of(const struct values *v, struct looking *look, int64_t low, int64_t high)
{
    int64_t *following = look->following;
    bool empty = true;
    for (int64_t i = look->start[low];; i++) {
        while (i < v->count && following[i] != i) {
            following[i] = following[following[i]];
            i = following[i];
        }
        if (i >= v->count || v->begin[i] >= high) {
            return empty ? EMPTY : NO_BOTTOM;
        }
        empty = false;
        if (look->earliest[i] > low || look->budget < 0) {
            return NO_BOTTOM;
        }
        look->budget--;
        if (v->into_from[i] <= low && v->out_by[i] >= high) {
            return i;
        }
    }
}

/* Returns how much was written, -1 where there is no memory. */
static int64_t nest(const struct values *v, struct tree *tree, struct looking *look,
                    struct stack *todo, struct stack *cuts, int64_t *order)
{
    int64_t written = 0, right = v->points - 1;
    /* The parts at the beginning: between points that nothing covers, from the right to the left. */
    for (int64_t k = v->points - 2; k >= 0; k--) {
        if (tree->lowest[tree->size + k] == SPLIT) {
            if (!push(todo, k, right)) {
                return -1;
            }
            right = k;
        }
    }
    while (todo->count) {
        struct todo part = todo->items[--todo->count];
        if (part.first < 0) {
            order[written++] = v->count + part.last;
            continue;
        }
        int64_t bottom = bottom_of(v, look, part.first, part.last);
        if (bottom == EMPTY) {
            continue;
        }
        if (bottom == NO_BOTTOM) {
            return written;
        }
        look->following[bottom] = bottom + 1;
        order[written++] = bottom;
        if (!push(todo, -1, bottom)) {
            return -1;
        }
        cuts->count = 0;
        if (v->begin[bottom] + 1 < v->end[bottom]) {
            lower(tree, v->begin[bottom] + 1, v->end[bottom] - 1);
            for (int64_t point = uncovered(tree); point >= 0; point = uncovered(tree)) {
                if (!push(cuts, point, 0)) {
                    return -1;
                }
            }
        }
        right = part.last;
        while (cuts->count) {
            int64_t cut = cuts->items[--cuts->count].first;
            if (!push(todo, cut, right)) {
                return -1;
            }
            right = cut;
        }
        if (!push(todo, part.first, right)) {
            return -1;
        }
    }
    return written;
}

/* Nest values.

   Values are surely inside strictly between `begin` and `end`, small numbers below `points`, and stand
   in order of `begin`; `into_from` and `out_by` on the same scale. Points at which nothing is surely
   inside split the values; a value at the bottom of a part goes away, which uncovers more points.

   Writes values in the order of the word: i for its push, count + i for its pop. Returns how many:
   fewer than 2 * count when a part has no bottom, or when looking for one takes too long; -1 where
   there is no memory. */
EXPORT int64_t nested(const struct values *v, int64_t *order)
{
    struct tree tree = {1, NULL, NULL};
    while (tree.size < v->points) {
        tree.size *= 2;
    }
    struct stack todo = {NULL, 0, 0}, cuts = {NULL, 0, 0};
    struct looking look = {NULL, NULL, NULL, 0};
    int32_t *change = calloc((size_t)v->points + 1, sizeof *change);
    tree.lowest = calloc(2 * (size_t)tree.size, sizeof *tree.lowest);
    tree.added = calloc(2 * (size_t)tree.size, sizeof *tree.added);
    look.start = malloc(((size_t)v->points + 1) * sizeof *look.start);
    look.following = malloc(((size_t)v->count + 1) * sizeof *look.following);
    look.earliest = malloc(((size_t)v->count + 1) * sizeof *look.earliest);
    int64_t written = -1;
    if (change && tree.lowest && tree.added && look.start && look.following && look.earliest) {
        grow_tree(v, &tree, change);
        begin_looking(v, &look);
        written = nest(v, &tree, &look, &todo, &cuts, order);
    }
    void *all[] = {change,         tree.lowest,   tree.added, look.start,
                   look.following, look.earliest, todo.items, cuts.items};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        free(all[k]);
    }
    return written;
}
