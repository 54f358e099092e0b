package org.apache.kafka.raft;

import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.SnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The state machine above the raft client, in the place of Kafka's controller: a number of values, and the
 * CRC32C of all of them one behind the other. That is what its snapshots hold, so that a node which loaded a
 * snapshot can be compared with those which read each value.
 */
final class SimListener implements RaftClient.Listener<byte[]> {
    /** What the state machine is after the last record of a batch; `crc` goes on where the one before ended. */
    private record State(int epoch, long timestamp, long values, int crc) { }

    private final Effects effects;
    private final TreeMap<Long, State> states = new TreeMap<>();
    private LeaderAndEpoch leader = LeaderAndEpoch.UNKNOWN;

    SimListener(Effects effects) {
        this.effects = effects;
    }

    LeaderAndEpoch leader() {
        return leader;
    }

    @Override
    public void handleCommit(BatchReader<byte[]> reader) {
        try (reader) {
            while (reader.hasNext()) {
                Batch<byte[]> batch = reader.next();
                long offset = batch.baseOffset();
                State before = states.isEmpty() ? new State(0, 0, 0, 0) : states.lastEntry().getValue();
                int crc = before.crc;
                for (byte[] value : batch.records()) {
                    effects.commit(offset++, batch.epoch(), value);
                    crc = Chain.extend(crc, value);
                }
                states.put(batch.lastOffset() + 1,
                    new State(batch.epoch(), batch.appendTimestamp(), before.values + batch.records().size(), crc));
            }
        }
    }

    @Override
    public void handleLoadSnapshot(SnapshotReader<byte[]> reader) {
        try (reader) {
            ByteBuffer state = ByteBuffer.allocate(Long.BYTES + Integer.BYTES);
            while (reader.hasNext()) {
                for (byte[] value : reader.next().records()) {
                    state.put(value);
                }
            }
            long offset = reader.snapshotId().offset();
            states.clear();
            states.put(offset, new State(reader.snapshotId().epoch(), reader.lastContainedLogTimestamp(), state.getLong(0),
                state.getInt(Long.BYTES)));
            effects.loaded(offset, reader.snapshotId().epoch(), state.getLong(0), state.getInt(Long.BYTES));
        }
    }

    /** The snapshot that a dynamic quorum was formatted with; it has voters, and no values. */
    public void handleLoadBootstrap(SnapshotReader<byte[]> reader) {
        reader.close();
    }

    @Override
    public void handleLeaderChange(LeaderAndEpoch now) {
        leader = now;
        effects.leader(now.epoch(), now.leaderId().orElse(-1));
    }

    /** Writes a snapshot at the last batch end at or below an offset; empty where there is none, or it exists. */
    Optional<OffsetAndEpoch> writeSnapshot(RaftClient<byte[]> client, long offset) {
        Map.Entry<Long, State> at = states.floorEntry(offset);
        if (at == null) {
            return Optional.empty();
        }
        State state = at.getValue();
        OffsetAndEpoch id = new OffsetAndEpoch(at.getKey(), state.epoch);
        Optional<SnapshotWriter<byte[]>> writer = client.createSnapshot(id, state.timestamp);
        writer.ifPresent(snapshot -> {
            try (snapshot) {
                snapshot.append(List.of(ByteBuffer.allocate(Long.BYTES + Integer.BYTES)
                    .putLong(state.values).putInt(state.crc).array()));
                snapshot.freeze();
            }
        });
        return writer.map(written -> id);
    }

    /** A CRC32C that goes on from its last value, which java.util.zip's cannot. */
    private static final class Chain {
        private static final int[] TABLE = new int[256];

        static {
            for (int i = 0; i < TABLE.length; i++) {
                int value = i;
                for (int bit = 0; bit < 8; bit++) {
                    value = (value & 1) != 0 ? (value >>> 1) ^ 0x82F63B78 : value >>> 1;
                }
                TABLE[i] = value;
            }
        }

        static int extend(int crc, byte[] bytes) {
            int value = ~crc;
            for (byte each : bytes) {
                value = TABLE[(value ^ each) & 0xff] ^ (value >>> 8);
            }
            return ~value;
        }
    }
}
