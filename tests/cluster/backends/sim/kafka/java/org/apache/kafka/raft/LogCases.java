package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotWriter;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;

/**
 * What a metadata log must do, case by case, on SimLog and on Kafka's own: the cases are those which Kafka's tests
 * of its log have. `FOLDER` prints a line for each case and log, which ends in `ok` or in what was wrong.
 */
public final class LogCases {
    private static final Map<String, String> CONFIG = Map.of(
        "internal.metadata.log.segment.bytes", "300",
        "metadata.max.retention.bytes", "1000",
        "metadata.max.retention.ms", "-1");

    private interface Case {
        void check(Subject subject) throws Exception;
    }

    /** One of the two logs. */
    private abstract static class Subject {
        final SimClock clock = new SimClock();
        RaftLog log;

        abstract void reopen();

        void append(int epoch, int count) {
            log.appendAsLeader(batch(log.endOffset().offset(), epoch, count), epoch);
        }

        /** A batch of `count` records for each epoch. */
        void epochs(int count, int... epochs) {
            for (int epoch : epochs) {
                append(epoch, count);
            }
        }

        void commit() {
            log.updateHighWatermark(log.endOffset());
        }

        void commit(long offset) {
            log.updateHighWatermark(new LogOffsetMetadata(offset));
        }

        void freeze(Optional<RawSnapshotWriter> writer) {
            try (RawSnapshotWriter file = writer.orElseThrow()) {
                file.append(MemoryRecords.withSnapshotHeaderRecord(0, clock.now, 1, ByteBuffer.allocate(200),
                    new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(clock.now)));
                file.freeze();
            }
        }

        void snapshot(long offset, int epoch) {
            freeze(log.createNewSnapshot(new OffsetAndEpoch(offset, epoch)));
        }

        /** A snapshot that came from a leader: it need not fit the log. */
        void fetched(long offset, int epoch) {
            freeze(log.createNewSnapshotUnchecked(new OffsetAndEpoch(offset, epoch)));
        }

        void span(long start, long end) {
            equal(start, log.startOffset());
            equal(end, log.endOffset().offset());
        }

        void valid(long offset, int epoch, ValidOffsetAndEpoch.Kind kind, long expectedOffset, int expectedEpoch) {
            ValidOffsetAndEpoch found = log.validateOffsetAndEpoch(offset, epoch);
            equal(kind, found.kind());
            equal(new OffsetAndEpoch(expectedOffset, expectedEpoch), found.offsetAndEpoch());
        }
    }

    private static final class Ours extends Subject {
        private final SimDisk disk = new SimDisk();

        Ours() {
            clock.now = 1_000_000;
            disk.open(new Effects(), clock, CONFIG);
            log = disk.log;
        }

        @Override
        void reopen() {
            disk.end(-1, 0, 0);
            disk.open(new Effects(), clock, CONFIG);
        }
    }

    private static final class Kafkas extends Subject {
        private final RealLog real;

        Kafkas(Path folder) {
            clock.now = 1_000_000;
            real = new RealLog(folder, clock, CONFIG);
            log = real.log;
        }

        @Override
        void reopen() {
            log.close();
            real.open();
            log = real.log;
        }
    }

    private static MemoryRecords batch(long base, int epoch, int count) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++) {
            records[i] = new SimpleRecord(0, new byte[] {(byte) (base + i)});
        }
        return MemoryRecords.withRecords(base, Compression.NONE, epoch, records);
    }

    private static void equal(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static void fails(Class<? extends Exception> expected, Callable<?> call) {
        try {
            call.call();
        } catch (Exception e) {
            if (expected.isInstance(e)) {
                return;
            }
            throw new AssertionError("expected " + expected.getSimpleName() + ", found " + e);
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", found no exception");
    }

    private static void refused(Subject on, long offset, int epoch) {
        fails(IllegalArgumentException.class, () -> on.log.createNewSnapshot(new OffsetAndEpoch(offset, epoch)));
        equal(Optional.empty(), on.log.latestSnapshotId());
    }

    private static List<Long> offsets(LogFetchInfo info) {
        List<Long> bases = new ArrayList<>();
        for (RecordBatch each : info.records.batches()) {
            bases.add(each.baseOffset());
        }
        return bases;
    }

    private static LogFetchInfo read(RaftLog log, long offset, Isolation isolation, int maxBytes) {
        return log.read(offset, isolation); // BEFORE 4.3
        return log.read(offset, isolation, maxBytes); // SINCE 4.3
    }

    private static Map<String, Case> cases() {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("a new log is empty, in epoch 0", on -> {
            on.span(0, 0);
            equal(0L, on.log.highWatermark().offset());
            equal(0, on.log.lastFetchedEpoch());
            equal(Optional.empty(), on.log.latestSnapshot());
            equal(false, on.log.truncateToLatestSnapshot());
            equal(Uuid.METADATA_TOPIC_ID, on.log.topicId());
            equal(SimLog.PARTITION, on.log.topicPartition());
        });
        cases.put("an append below the end is refused", on -> {
            on.append(3, 1);
            fails(Exception.class, () -> on.log.appendAsLeader(batch(0, 3, 1), 3));
            fails(Exception.class, () -> on.log.appendAsFollower(batch(0, 3, 1), 3));
            on.span(0, 1);
        });
        cases.put("an empty append is refused", on -> {
            fails(IllegalArgumentException.class, () -> on.log.appendAsLeader(MemoryRecords.EMPTY, 1));
            fails(IllegalArgumentException.class, () -> on.log.appendAsFollower(MemoryRecords.EMPTY, 1));
        });
        cases.put("half a batch is no batch", on -> {
            ByteBuffer half = batch(0, 1, 3).buffer();
            half.limit(half.limit() - 1);
            fails(CorruptRecordException.class,
                () -> on.log.appendAsFollower(MemoryRecords.readableRecords(half), 1));
            on.span(0, 0);
        });
        cases.put("a damaged batch is refused", on -> {
            ByteBuffer bytes = batch(0, 1, 3).buffer();
            bytes.put(bytes.limit() - 2, (byte) 77);
            fails(CorruptRecordException.class,
                () -> on.log.appendAsFollower(MemoryRecords.readableRecords(bytes), 1));
            on.span(0, 0);
        });
        cases.put("a follower takes no batch of a later epoch than its own", on -> {
            ByteBuffer both = ByteBuffer.allocate(400);
            both.put(batch(0, 4, 2).buffer()).put(batch(2, 6, 1).buffer()).flip();
            equal(1L, on.log.appendAsFollower(MemoryRecords.readableRecords(both), 5).lastOffset());
            on.span(0, 2);
            equal(4, on.log.lastFetchedEpoch());
            fails(CorruptRecordException.class, () -> on.log.appendAsFollower(batch(2, 6, 1), 5));
        });
        cases.put("an epoch begins where its leader became leader, and ends where the next begins", on -> {
            on.epochs(3, 1, 3);
            on.log.initializeLeaderEpoch(4);
            equal(new OffsetAndEpoch(3, 1), on.log.endOffsetForEpoch(1));
            equal(new OffsetAndEpoch(3, 1), on.log.endOffsetForEpoch(2));
            equal(new OffsetAndEpoch(6, 3), on.log.endOffsetForEpoch(3));
            equal(new OffsetAndEpoch(6, 4), on.log.endOffsetForEpoch(4));
            equal(new OffsetAndEpoch(6, 4), on.log.endOffsetForEpoch(9));
            equal(4, on.log.lastFetchedEpoch());
        });
        cases.put("an epoch without a record gives way to the next at the same offset", on -> {
            on.append(1, 2);
            on.log.initializeLeaderEpoch(2);
            on.log.initializeLeaderEpoch(3);
            equal(new OffsetAndEpoch(2, 1), on.log.endOffsetForEpoch(2));
            on.log.truncateTo(2);
            equal(1, on.log.lastFetchedEpoch());
        });
        cases.put("truncation takes the epochs behind it along", on -> {
            on.epochs(2, 1, 2, 3);
            on.log.truncateTo(3);
            on.span(0, 3);
            equal(2, on.log.lastFetchedEpoch());
            equal(2L, on.log.truncateToEndOffset(new OffsetAndEpoch(5, 1)));
            on.span(0, 2);
        });
        cases.put("what is committed is never truncated", on -> {
            on.epochs(2, 1, 1);
            on.commit(2);
            fails(IllegalArgumentException.class, () -> {
                on.log.truncateTo(1);
                return null;
            });
            on.log.truncateTo(2);
            on.span(0, 2);
            equal(2L, on.log.highWatermark().offset());
        });
        cases.put("the high watermark does not pass the end", on -> {
            on.append(1, 3);
            on.commit(9);
            equal(3L, on.log.highWatermark().offset());
        });
        cases.put("a read gives a whole batch at least, and committed ones where those are wanted", on -> {
            on.epochs(2, 1, 1, 1);
            equal(List.of(0L), offsets(read(on.log, 0, Isolation.UNCOMMITTED, 100)).subList(0, 1));
            equal(List.of(), offsets(read(on.log, 0, Isolation.COMMITTED, 100)));
            on.commit(2);
            equal(List.of(0L), offsets(read(on.log, 0, Isolation.COMMITTED, 1000)));
            equal(List.of(), offsets(read(on.log, 6, Isolation.UNCOMMITTED, 1000)));
            equal(0L, read(on.log, 1, Isolation.UNCOMMITTED, 1).startOffsetMetadata.offset());
        });
        cases.put("a read outside of the log is refused", on -> {
            on.epochs(2, 1, 1);
            on.commit();
            on.fetched(10, 2);
            on.log.truncateToLatestSnapshot();
            fails(OffsetOutOfRangeException.class, () -> read(on.log, 9, Isolation.UNCOMMITTED, 100));
            fails(OffsetOutOfRangeException.class, () -> read(on.log, 11, Isolation.UNCOMMITTED, 100));
            equal(List.of(), offsets(read(on.log, 10, Isolation.UNCOMMITTED, 100)));
        });
        cases.put("a snapshot is there once it is frozen", on -> {
            on.append(1, 4);
            on.commit();
            OffsetAndEpoch id = new OffsetAndEpoch(4, 1);
            on.log.createNewSnapshot(id).orElseThrow().close();
            equal(Optional.empty(), on.log.readSnapshot(id));
            on.snapshot(4, 1);
            equal(Optional.of(id), on.log.latestSnapshotId());
            equal(id, on.log.latestSnapshot().orElseThrow().snapshotId());
            equal(Optional.empty(), on.log.createNewSnapshot(id));
            equal(Optional.empty(), on.log.readSnapshot(new OffsetAndEpoch(3, 1)));
        });
        cases.put("a snapshot ends a batch", on -> {
            on.append(1, 4);
            on.append(1, 4);
            on.commit();
            refused(on, 3, 1);
            on.snapshot(4, 1);
        });
        cases.put("a snapshot does not pass the high watermark", on -> {
            on.epochs(2, 1, 1);
            on.commit(2);
            refused(on, 4, 1);
            refused(on, 6, 1);
        });
        cases.put("a snapshot has the epoch of its last record", on -> {
            on.epochs(2, 1, 3);
            on.commit();
            refused(on, 2, 2);
            refused(on, 4, 4);
            refused(on, 4, 1);
            refused(on, 2, 0);
            on.snapshot(2, 1);
            on.snapshot(4, 3);
        });
        cases.put("a snapshot before the log is not made", on -> {
            on.epochs(2, 1, 1, 1);
            on.commit();
            on.snapshot(4, 1);
            equal(true, on.log.deleteBeforeSnapshot(new OffsetAndEpoch(4, 1)) || on.log.startOffset() == 4);
            equal(Optional.empty(), on.log.createNewSnapshot(new OffsetAndEpoch(2, 1)));
        });
        cases.put("a fetched snapshot behind the log takes its place", on -> {
            on.append(2, 2);
            on.commit();
            on.snapshot(2, 2);
            on.fetched(10, 2);
            equal(true, on.log.truncateToLatestSnapshot());
            on.span(10, 10);
            equal(10L, on.log.highWatermark().offset());
            equal(2, on.log.lastFetchedEpoch());
            equal(on.log.latestSnapshotId(), on.log.earliestSnapshotId());
            on.append(3, 1);
            equal(new OffsetAndEpoch(10, 2), on.log.endOffsetForEpoch(2));
        });
        cases.put("a fetched snapshot of a later epoch takes the place of a longer log", on -> {
            on.append(2, 5);
            on.fetched(3, 4);
            equal(true, on.log.truncateToLatestSnapshot());
            on.span(3, 3);
        });
        cases.put("a snapshot within the log takes nothing away", on -> {
            on.append(2, 5);
            on.fetched(5, 2);
            equal(false, on.log.truncateToLatestSnapshot());
            on.fetched(9, 1);
            equal(Optional.of(new OffsetAndEpoch(5, 2)), on.log.latestSnapshotId());
            equal(false, on.log.truncateToLatestSnapshot());
            on.span(0, 5);
        });
        cases.put("a node that stopped before its truncation does it when it starts", on -> {
            on.append(1, 2);
            on.fetched(7, 3);
            on.reopen();
            on.span(7, 7);
            equal(7L, on.log.highWatermark().offset());
        });
        cases.put("a snapshot that was not frozen is gone after a restart", on -> {
            on.append(1, 2);
            on.commit();
            on.snapshot(2, 1);
            on.log.createNewSnapshotUnchecked(new OffsetAndEpoch(8, 1)).orElseThrow().close();
            on.reopen();
            equal(Optional.of(new OffsetAndEpoch(2, 1)), on.log.latestSnapshotId());
            on.span(0, 2);
            equal(0L, on.log.highWatermark().offset());
        });
        cases.put("cleaning deletes from the oldest snapshot on, whole segments, and keeps the last snapshot", on -> {
            for (int i = 0; i < 12; i++) {
                on.append(1, 4);
            }
            on.commit();
            equal(false, on.log.maybeClean());
            on.snapshot(16, 1);
            equal(false, on.log.maybeClean());
            on.snapshot(32, 1);
            on.snapshot(40, 1);
            equal(true, on.log.maybeClean());
            equal(true, on.log.startOffset() >= 32);
            equal(true, on.log.latestSnapshotId().isPresent());
            long start = on.log.startOffset();
            equal(start, on.log.earliestSnapshotId().orElseThrow().offset());
            fails(OffsetOutOfRangeException.class, () -> read(on.log, start - 1, Isolation.COMMITTED, 100));
        });
        cases.put("nothing is deleted before a snapshot that there is not", on -> {
            on.append(1, 4);
            on.commit();
            equal(false, on.log.deleteBeforeSnapshot(new OffsetAndEpoch(4, 1)));
            on.span(0, 4);
        });
        cases.put("offset and epoch of a fetch are valid, diverge, or want a snapshot", on -> {
            on.epochs(2, 1, 2, 4, 5);
            on.commit();
            on.valid(0, 0, ValidOffsetAndEpoch.Kind.VALID, 0, 0);
            on.valid(3, 2, ValidOffsetAndEpoch.Kind.VALID, 3, 2);
            on.valid(5, 2, ValidOffsetAndEpoch.Kind.DIVERGING, 4, 2);
            on.valid(4, 3, ValidOffsetAndEpoch.Kind.DIVERGING, 4, 2);
            on.valid(8, 9, ValidOffsetAndEpoch.Kind.DIVERGING, 8, 5);
            on.snapshot(4, 2);
            on.snapshot(6, 4);
            on.log.deleteBeforeSnapshot(new OffsetAndEpoch(4, 2));
            on.valid(3, 2, ValidOffsetAndEpoch.Kind.SNAPSHOT, 6, 4);
            on.valid(4, 2, ValidOffsetAndEpoch.Kind.VALID, 4, 2);
            on.valid(4, 1, ValidOffsetAndEpoch.Kind.SNAPSHOT, 6, 4);
            on.valid(6, 1, ValidOffsetAndEpoch.Kind.SNAPSHOT, 6, 4);
            on.valid(6, 3, ValidOffsetAndEpoch.Kind.DIVERGING, 4, 2);
        });
        cases.put("a snapshot of the first epoch does not hide that a fetch diverges", on -> {
            on.fetched(10, 3);
            on.log.truncateToLatestSnapshot();
            on.epochs(2, 5, 6);
            on.valid(10, 3, ValidOffsetAndEpoch.Kind.VALID, 10, 3);
            on.valid(12, 4, ValidOffsetAndEpoch.Kind.DIVERGING, 10, 3);
            on.valid(13, 5, ValidOffsetAndEpoch.Kind.DIVERGING, 12, 5);
            on.valid(9, 3, ValidOffsetAndEpoch.Kind.SNAPSHOT, 10, 3);
        });
        return cases;
    }

    public static void main(String[] args) throws Exception {
        int folders = 0;
        for (Map.Entry<String, Case> each : cases().entrySet()) {
            Path folder = Files.createDirectories(Path.of(args[0], "case" + folders++));
            for (Subject subject : List.of(new Ours(), new Kafkas(folder))) {
                String outcome = "ok";
                try {
                    each.getValue().check(subject);
                } catch (Throwable e) {
                    outcome = e.toString();
                }
                System.out.println(each.getKey() + " (" + subject.getClass().getSimpleName() + "): " + outcome);
            }
        }
    }
}
