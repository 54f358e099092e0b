/* What all searches share: operations as integers, and how they are laid out in time.

   An operation has a code; `a` is what it needs the state to be, `b` what it makes of it. States are
   integers as well (porcupine_py/search/encoding.py, which has the same numbers). Operations
   stand in order of invocation. A position is an int32_t: Python refuses longer histories. */

#ifndef KRAFTPROBE_OPERATIONS_H
#define KRAFTPROBE_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* needs a | makes b | needs a, makes b | needs anything but a | appends to a hashed string */
enum { READ, WRITE, CAS, NOT, APPEND };

/* more to do | an order was found | there is none | out of memory | nothing left, but some were
   thrown away */
enum { RUNNING, FOUND, NONE, MEMORY, DIED };

/* State of a string of which no read shows an extension. */
#define DEAD (-2)

/* Rank of the return of an operation that never returns. */
#define NEVER INT32_MAX

struct history {
    int32_t count;
    const int8_t *code;
    const int64_t *a;
    const int64_t *b;
    const int64_t *invoke_ns;
    const int64_t *complete_ns;
    const uint8_t *info;
};

/* The hashes of all strings that can still be seen: open-addressed, -1 where nothing is. */
struct viable {
    const int64_t *table;
    int64_t slots; /* a power of two */
};

/* Scatter an integer over 64 bits (splitmix64, Steele, Lea and Flood 2014). */
static inline uint64_t mix(uint64_t x)
{
    uint64_t z = x + UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The state after appending to a string: DEAD is as good as any of which no read shows an extension
   (strings.c). */
int64_t appended(int64_t state, int64_t hash, int64_t factor, const struct viable *viable);

/* Apply an operation: returns whether it is legal, and the state after it. */
static inline bool step(int8_t code, int64_t a, int64_t b, int64_t state,
                        const struct viable *viable, int64_t *after)
{
    switch (code) {
    case READ:
        *after = state;
        return state == a;
    case WRITE:
        *after = b;
        return true;
    case CAS:
        *after = b;
        return state == a;
    case NOT:
        *after = state;
        return state != a;
    default:
        *after = appended(state, a, b, viable);
        return true;
    }
}

/* Put calls and returns in order of time, calls first at equal times (closed intervals).

   Entry i is the call of operation i, count + i its return; indeterminate operations have no return,
   their rank is NEVER. `entries` has room for 2 * count, the others for count. Returns how many
   entries there are. */
int32_t lay_out(const struct history *history, int32_t *returns, int32_t *entries, int32_t *call,
                int32_t *ret);

/* Group operations that would do the same, each group in order of invocation.

   `chosen`: positions in order of invocation. Class c gets `members[starts[c]]` and what follows up to
   `starts[c + 1]`; `starts` has room for count + 2. Returns how many classes there are. */
int32_t classes(const struct history *history, const int32_t *chosen, int32_t count,
                int32_t *scratch, int32_t *members, int32_t *starts);

/* How many integers of scratch `classes` needs. */
size_t classes_scratch(int32_t count);

#endif
