package org.apache.kafka.raft;

import org.apache.kafka.common.errors.TimeoutException;

import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;

/** Futures that fail at a time, in the order of their times and then of their making. */
final class SimExpirations implements ExpirationService {
    private record Deadline(long due, long id, CompletableFuture<?> future) { }

    private final SimClock clock;
    private long ids;
    /** By how much the wall clock was set; deadlines are those of the clock without that. */
    long set;
    private final PriorityQueue<Deadline> deadlines = new PriorityQueue<>((a, b) ->
        a.due != b.due ? Long.compare(a.due, b.due) : Long.compare(a.id, b.id));

    SimExpirations(SimClock clock) {
        this.clock = clock;
    }

    @Override
    public <T> CompletableFuture<T> failAfter(long ms) {
        CompletableFuture<T> future = new CompletableFuture<>();
        deadlines.add(new Deadline(clock.now - set + ms, ids++, future));
        return future;
    }

    /** The time of the first future that still waits; Long.MAX_VALUE where none does. */
    long next() {
        while (!deadlines.isEmpty() && deadlines.peek().future.isDone()) {
            deadlines.poll();
        }
        return deadlines.isEmpty() ? Long.MAX_VALUE : deadlines.peek().due + set;
    }

    void expire() {
        while (next() <= clock.now) {
            deadlines.poll().future.completeExceptionally(new TimeoutException());
        }
    }
}
