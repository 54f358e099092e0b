package org.apache.kafka.raft;

import java.util.ArrayDeque;
import java.util.Optional; // SINCE 4.4
import java.util.concurrent.CompletableFuture; // SINCE 4.4
import java.util.concurrent.CompletionStage; // SINCE 4.4

/**
 * The queue of the raft thread. Its poll returns at once, and remembers how long it may wait: that is
 * when the world wakes the node next.
 */
final class SimInbox implements RaftMessageQueue {
    private record Entry(RaftMessage message, CompletableFuture<RaftMessage> future) implements QueueEntry { } // SINCE 4.4

    private final ArrayDeque<RaftMessage> messages = new ArrayDeque<>(); // BEFORE 4.4
    private final ArrayDeque<QueueEntry> messages = new ArrayDeque<>(); // SINCE 4.4
    private final SimClock clock;
    long timeout;
    boolean woken;
    long resumed;

    SimInbox(SimClock clock) {
        this.clock = clock;
    }

    /**
     * A raft thread that has nothing to do is blocked in here, with the time at which it began to
     * wait; what arrives wakes it in here, and only then does it read the clock again. So the first
     * poll of a step begins at the time of the step before, and the clock moves on in here. Otherwise a
     * node that was paused beyond a time-out would always see the time-out before the message, where a
     * real thread takes the message first.
     */
    @Override
    public RaftMessage poll(long timeoutMs) { // BEFORE 4.4
    public Optional<QueueEntry> poll(long timeoutMs) { // SINCE 4.4
        clock.now = resumed;
        timeout = timeoutMs;
        woken = false;
        return messages.poll(); // BEFORE 4.4
        return Optional.ofNullable(messages.poll()); // SINCE 4.4
    }

    @Override
    public void add(RaftMessage message) { // BEFORE 4.4
        messages.add(message); // BEFORE 4.4
    public CompletionStage<RaftMessage> add(RaftMessage message) { // SINCE 4.4
        CompletableFuture<RaftMessage> answer = new CompletableFuture<>(); // SINCE 4.4
        messages.add(new Entry(message, answer)); // SINCE 4.4
        return answer; // SINCE 4.4
    }

    @Override
    public boolean isEmpty() {
        return messages.isEmpty();
    }

    @Override
    public void wakeup() {
        woken = true;
    }
}
