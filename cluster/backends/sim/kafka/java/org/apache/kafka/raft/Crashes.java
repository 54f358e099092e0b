package org.apache.kafka.raft;

/** Power loss at the n-th time that an incarnation does something with its disk. */
final class Crashes {
    static final int APPEND = 1;
    static final int APPENDED = 2;
    static final int FLUSH = 3;
    static final int FLUSHED = 4;
    static final int STATE = 5;
    static final int STATE_WRITTEN = 6;
    static final int FREEZE = 7;
    static final int FROZEN = 8;

    /** Ends a step where it is; an Error, as Kafka's code catches exceptions in some places. */
    static final class PowerLoss extends Error {
        private static final long serialVersionUID = 1L;

        PowerLoss() {
            super("power loss", null, false, false);
        }
    }

    private int point;
    private int left;
    private boolean dead;

    void arm(int armed, int nth) {
        point = armed;
        left = nth;
    }

    /**
     * A point has been reached. Once the power is off, each further point throws again: a `finally`
     * or a caught Error of Kafka's must not write to a disk that has no power.
     */
    void at(int reached) {
        if (!dead && reached == point && --left == 0) {
            dead = true;
        }
        if (dead) {
            throw new PowerLoss();
        }
    }
}
