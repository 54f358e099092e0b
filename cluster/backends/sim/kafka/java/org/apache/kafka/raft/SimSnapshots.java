package org.apache.kafka.raft;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedRecords;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The snapshots of one log. Kafka syncs a snapshot before it gives it its name, so that freezing makes it
 * durable as a whole, and an incarnation that ends before leaves nothing behind.
 */
final class SimSnapshots {
    private final SimDisk disk;
    private TreeMap<OffsetAndEpoch, byte[]> frozen = new TreeMap<>();
    int piece = Integer.MAX_VALUE;

    SimSnapshots(SimDisk disk) {
        this.disk = disk;
    }

    TreeMap<OffsetAndEpoch, byte[]> all() {
        return new TreeMap<>(frozen);
    }

    void restore(TreeMap<OffsetAndEpoch, byte[]> earlier) {
        frozen = new TreeMap<>(earlier);
    }

    int count() {
        return frozen.size();
    }

    boolean contains(OffsetAndEpoch id) {
        return frozen.containsKey(id);
    }

    Optional<OffsetAndEpoch> earliest() {
        return frozen.isEmpty() ? Optional.empty() : Optional.of(frozen.firstKey());
    }

    Optional<OffsetAndEpoch> latest() {
        return frozen.isEmpty() ? Optional.empty() : Optional.of(frozen.lastKey());
    }

    Optional<RawSnapshotReader> reader(OffsetAndEpoch id) {
        return Optional.ofNullable(frozen.get(id)).map(bytes -> new Reader(id, bytes, piece));
    }

    Optional<RawSnapshotWriter> writer(OffsetAndEpoch id) {
        return contains(id) ? Optional.empty() : Optional.of(new Writer(id));
    }

    /** Deletes the snapshots below an id, and returns how many they were. */
    int deleteBefore(OffsetAndEpoch id) {
        int before = frozen.size();
        frozen.headMap(id, false).clear();
        return before - frozen.size();
    }

    /** Deletes the snapshots that end below an offset, as a starting node does with those that end below its log. */
    void deleteBelow(long offset) {
        frozen.keySet().removeIf(id -> id.offset() < offset);
    }

    private record Reader(OffsetAndEpoch snapshotId, byte[] bytes, int piece) implements RawSnapshotReader {
        @Override
        public long sizeInBytes() {
            return bytes.length;
        }

        /** Fewer bytes than are asked for are a true answer: that is how a snapshot is fetched in pieces. */
        @Override
        public UnalignedRecords slice(long position, int size) {
            if (position < 0 || position > bytes.length || size < 0) {
                throw new IllegalArgumentException("slice of " + size + " at " + position + " of " + bytes.length);
            }
            int length = (int) Math.min(bytes.length - position, Math.min(size, piece));
            return new UnalignedMemoryRecords(ByteBuffer.wrap(bytes, (int) position, length).slice());
        }

        @Override
        public Records records() {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        }
    }

    private final class Writer implements RawSnapshotWriter {
        private final OffsetAndEpoch id;
        private final ByteArrayOutputStream content = new ByteArrayOutputStream();
        private boolean done;

        Writer(OffsetAndEpoch id) {
            this.id = id;
        }

        @Override
        public OffsetAndEpoch snapshotId() {
            return id;
        }

        @Override
        public long sizeInBytes() {
            return content.size();
        }

        @Override
        public void append(UnalignedMemoryRecords records) {
            append(records.buffer());
        }

        @Override
        public void append(MemoryRecords records) {
            append(records.buffer());
        }

        /** As a file channel does, this takes what lies between the buffer's position and its limit, and moves the position. */
        private void append(ByteBuffer buffer) {
            refuseFrozen("append");
            byte[] array = new byte[buffer.remaining()];
            buffer.get(array);
            content.write(array, 0, array.length);
        }

        @Override
        public boolean isFrozen() {
            return done;
        }

        @Override
        public void freeze() {
            refuseFrozen("freeze");
            disk.beginFlush(Effects.SNAPSHOT, id.offset());
            done = true;
            byte[] bytes = content.toByteArray();
            frozen.put(id, bytes);
            disk.effects().snapshot(id.offset(), id.epoch(), bytes);
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
                if (batch.isControlBatch()) {
                    batch.forEach(record -> SimLog.reportVoters(disk.effects(), record, id.offset() - 1));
                }
            }
        }

        private void refuseFrozen(String what) {
            if (done) {
                throw new IllegalStateException(what + ": snapshot " + id + " is frozen");
            }
        }

        @Override
        public void close() {
        }
    }
}
