package org.apache.kafka.raft;

import org.apache.kafka.common.utils.Time;

import java.util.function.Supplier;

/** The clock of one node: it shows what the last frame said. */
final class SimClock implements Time {
    long now;

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return now * 1_000_000;
    }

    /** One thread plays all nodes: a node that waits would stop the world. */
    @Override
    public void sleep(long ms) {
        throw new IllegalStateException("a simulated node may not sleep");
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new IllegalStateException("a simulated node may not wait");
    }
}
