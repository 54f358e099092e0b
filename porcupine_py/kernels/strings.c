/* Strings that are appended to, as hashes of 62 bits: two polynomials modulo primes.

   h(s) is the sum of (c + 1) * base ** (what is behind c), so h(s + t) = h(s) * base ** len(t) + h(t):
   a string that is appended has a hash and a factor, the power of the base. Both residues, of 31 bits
   each, stand in one integer; no product of two of them and no sum of that and a third exceeds 63
   bits. Hashes are not secret: two strings with one hash can make a verdict wrong, but not its
   certificate, which knows none. */

#include "operations.h"

static const uint64_t PRIME_1 = 2147483647, PRIME_2 = 2147483629;
static const uint64_t BASE_1 = 1000003, BASE_2 = 1500450271;
static const uint64_t LOW_BITS = 2147483647;

static int64_t joined(uint64_t high, uint64_t low)
{
    return (int64_t)(high << 31 | low);
}

static bool is_in(const struct viable *viable, int64_t hash)
{
    uint64_t mask = (uint64_t)viable->slots - 1, at = mix((uint64_t)hash) & mask;
    while (viable->table[at] != -1 && viable->table[at] != hash) {
        at = (at + 1) & mask;
    }
    return viable->table[at] == hash;
}

int64_t appended(int64_t state, int64_t hash, int64_t factor, const struct viable *viable)
{
    if (state == DEAD) {
        return DEAD;
    }
    uint64_t s = (uint64_t)state & INT64_MAX, h = (uint64_t)hash & INT64_MAX;
    uint64_t f = (uint64_t)factor & INT64_MAX;
    uint64_t high = ((s >> 31) * (f >> 31) + (h >> 31)) % PRIME_1;
    uint64_t low = ((s & LOW_BITS) * (f & LOW_BITS) + (h & LOW_BITS)) % PRIME_2;
    int64_t after = joined(high, low);
    return is_in(viable, after) ? after : DEAD;
}

/* Hash each prefix of texts that stand one behind another: text k ends before `ends[k]`, and the hash
   of what ends with a point stands at that point. */
EXPORT void prefix_hashes(const uint32_t *points, const int64_t *ends, int64_t texts,
                          int64_t *hashes)
{
    int64_t at = 0;
    for (int64_t k = 0; k < texts; k++) {
        uint64_t high = 0, low = 0;
        for (; at < ends[k]; at++) {
            uint64_t value = (uint64_t)points[at] + 1;
            high = (high * BASE_1 + value) % PRIME_1;
            low = (low * BASE_2 + value) % PRIME_2;
            hashes[at] = joined(high, low);
        }
    }
}

/* Write the factors of strings of 0, 1, ... points. */
EXPORT void factors(int64_t count, int64_t *powers)
{
    uint64_t high = 1, low = 1;
    for (int64_t k = 0; k < count; k++) {
        powers[k] = joined(high, low);
        high = high * BASE_1 % PRIME_1;
        low = low * BASE_2 % PRIME_2;
    }
}

/* Fill an open-addressed table, of a power of two slots that is more than the hashes. */
EXPORT void table_of(const int64_t *hashes, int64_t count, int64_t *table, int64_t slots)
{
    uint64_t mask = (uint64_t)slots - 1;
    for (int64_t k = 0; k < slots; k++) {
        table[k] = -1;
    }
    for (int64_t k = 0; k < count; k++) {
        uint64_t at = mix((uint64_t)hashes[k]) & mask;
        while (table[at] != -1 && table[at] != hashes[k]) {
            at = (at + 1) & mask;
        }
        table[at] = hashes[k];
    }
}

/* Say of each hash whether it is in the table. */
EXPORT void look_up(const struct viable *viable, const int64_t *hashes, int64_t count,
                    uint8_t *found)
{
    for (int64_t k = 0; k < count; k++) {
        found[k] = is_in(viable, hashes[k]);
    }
}
