/* A wall clock that is off by what a mapped file says, for a program that preloads this.

   The file of KRAFTPROBE_CLOCK_OFFSET begins with the offset in nanoseconds, 8 bytes of the machine's
   order, which whoever set it stores at once: each look is one atomic load more, and a thread can see
   no half of an offset, and never the true time beside another's faked one. Every other clock stays
   true, and so do waits: a deadline on the wall clock comes by the true one.

   Nothing but the C library of the program is used, by names that each has (glibc, musl). */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define SECOND_NS 1000000000L
#define NEXT ((void *)-1L) /* RTLD_NEXT */

typedef int Look(clockid_t, struct timespec *);

/* Before glibc 2.34 it is in a library that few programs lack. Without it a look is a system call. */
extern void *dlsym(void *, const char *) __attribute__((weak));

static Look *true_look;
static const _Atomic int64_t *offset_ns;

__attribute__((constructor)) static void begin(void) {
    if (dlsym)
        true_look = (Look *)dlsym(NEXT, "clock_gettime");
    const char *path = getenv("KRAFTPROBE_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset_ns = mapped;
}

static int look(clockid_t clock, struct timespec *at) {
    int failed = true_look ? true_look(clock, at) : (int)syscall(SYS_clock_gettime, clock, at);
    if (failed || !offset_ns ||
        (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI))
        return failed;
    int64_t offset = atomic_load_explicit(offset_ns, memory_order_relaxed);
    at->tv_sec += offset / SECOND_NS;
    at->tv_nsec += offset % SECOND_NS;
    if (at->tv_nsec < 0) {
        at->tv_nsec += SECOND_NS;
        at->tv_sec--;
    } else if (at->tv_nsec >= SECOND_NS) {
        at->tv_nsec -= SECOND_NS;
        at->tv_sec++;
    }
    return 0;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *at) { return look(clock, at); }

EXPORTED int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    if (zone)
        *(struct timezone *)zone = (struct timezone){0, 0};
    if (look(CLOCK_REALTIME, &now))
        return -1;
    *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

EXPORTED time_t time(time_t *at) {
    struct timespec now;
    if (look(CLOCK_REALTIME, &now))
        return -1;
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

EXPORTED int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && !look(CLOCK_REALTIME, at) ? base : 0;
}
