#include <stdint.h>
#include <stdlib.h>

#define SHARED __attribute__((weak, visibility("default")))
SHARED int64_t allocations_left = INT64_MAX, allocations_held = 0;

static inline void *counted(void *fresh)
{
    allocations_held += fresh != NULL;
    return fresh;
}

static inline void *malloc_or_not(size_t bytes)
{
    return allocations_left-- > 0 ? counted(malloc(bytes)) : NULL;
}

static inline void *calloc_or_not(size_t count, size_t bytes)
{
    return allocations_left-- > 0 ? counted(calloc(count, bytes)) : NULL;
}

static inline void *realloc_or_not(void *old, size_t bytes)
{
    if (allocations_left-- <= 0) {
        return NULL;
    }
    return old == NULL ? counted(malloc(bytes)) : realloc(old, bytes);
}

static inline void counted_free(void *old)
{
    allocations_held -= old != NULL;
    free(old);
}

#define malloc malloc_or_not
#define calloc calloc_or_not
#define realloc realloc_or_not
#define free counted_free
