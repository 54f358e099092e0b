package org.apache.kafka.raft;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * SimLog beside Kafka's own log: drawn sequences of operations on both, each answer and the state after it
 * compared. `FOLDER FIRST LAST OPERATIONS` plays the seeds from FIRST to LAST. A sequence in which they differ is
 * cut down to the operations that it takes, and printed; how often each operation had which outcome follows.
 */
public final class LogDifferential {
    private static Map<String, String> config;

    /** Every third seed cleans by size alone. */
    private static Map<String, String> config(long seed) {
        return Map.of(
            "internal.metadata.log.segment.bytes", "600",
            "metadata.max.retention.bytes", "1500",
            "metadata.max.retention.ms", seed % 3 == 0 ? "-1" : "50000");
    }

    /** Exceptions by which Kafka's log refuses, from modules that SimLog cannot see: their classes do not matter to the raft client. */
    private static final List<String> REFUSALS = List.of("UnexpectedAppendOffsetException", "OffsetsOutOfOrderException",
        "RecordBatchTooLargeException");

    /** An operation: what, and three numbers from which its arguments come, given the state that the log is in. */
    private record Operation(int what, int a, int b, int c) { }

    private static final Map<String, Integer> OUTCOMES = new TreeMap<>();

    private final SimClock clock = new SimClock();
    private final SimDisk disk = new SimDisk();
    private final RealLog real;
    private final StringBuilder lines = new StringBuilder();
    private int epoch = 1;

    private LogDifferential(Path folder) throws IOException {
        clock.now = 1_000_000;
        Files.createDirectories(folder);
        real = new RealLog(folder, clock, config);
        disk.open(new Effects(), clock, config);
    }

    // --- Arguments ---

    private static int pick(int number, int bound) {
        return Math.floorMod(number, bound);
    }

    /** An offset in the log or a little outside. */
    private long offset(int number) {
        long start = real.log.startOffset();
        return Math.max(0, start - 2 + pick(number, (int) (real.log.endOffset().offset() - start) + 5));
    }

    private int epochAround(int number) {
        return Math.max(0, epoch + 1 - pick(number, 6));
    }

    private OffsetAndEpoch snapshotId(int number, int other) {
        List<OffsetAndEpoch> ids = new ArrayList<>();
        disk.log.content().snapshots().keySet().forEach(ids::add);
        return pick(other, 4) > 0 && !ids.isEmpty() ? ids.get(pick(number, ids.size()))
            : new OffsetAndEpoch(offset(number), epochAround(other));
    }

    /** The epoch of the record before an offset. */
    private int epochOf(long offset) {
        try {
            for (int each = 0; each < epoch; each++) {
                OffsetAndEpoch end = disk.log.endOffsetForEpoch(each);
                if (end.epoch() == each && end.offset() >= offset) {
                    return each;
                }
            }
        } catch (KafkaException e) {
            return epoch; // no epoch is known: the log is empty, and its snapshot elsewhere
        }
        return epoch;
    }

    private MemoryRecords batch(long base, int batchEpoch, int count, int size) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++) {
            byte[] value = new byte[size];
            Arrays.fill(value, (byte) (base + i));
            records[i] = new SimpleRecord(clock.now, value);
        }
        return MemoryRecords.withRecords(base, Compression.NONE, batchEpoch, records);
    }

    private static MemoryRecords joined(List<MemoryRecords> parts, int cut) {
        ByteBuffer all = ByteBuffer.allocate(parts.stream().mapToInt(MemoryRecords::sizeInBytes).sum());
        parts.forEach(part -> all.put(part.buffer()));
        all.flip();
        all.limit(Math.max(1, all.limit() - cut));
        return MemoryRecords.readableRecords(all);
    }

    // --- Operations ---

    /** Does an operation on both; returns what differs, or null. */
    private String play(Operation operation) {
        int a = operation.a;
        int b = operation.b;
        int c = operation.c;
        switch (operation.what) {
            case 0, 1, 2 -> {
                int batchEpoch = pick(c, 12) == 0 ? epoch + 1 - pick(a, 3) : epoch;
                long base = real.log.endOffset().offset() + (pick(b, 12) == 0 ? pick(a, 4) - 2 : 0);
                return append(List.of(batch(Math.max(0, base), batchEpoch, 1 + pick(a, 4), pick(b, 90))), 0, epoch, true, false);
            }
            case 3, 4 -> {
                List<MemoryRecords> parts = new ArrayList<>();
                long base = Math.max(0, real.log.endOffset().offset() + (pick(c, 10) == 0 ? pick(b, 5) - 2 : 0));
                int batchEpoch = epoch;
                int count = 1 + pick(a >> 2, 3); // of all, so that one which begins where the last did is out of order
                for (int i = 0; i <= pick(a, 3); i++) {
                    parts.add(batch(base, batchEpoch, count, pick(b >> i, 60)));
                    base += pick(b, 25) == 0 ? 0 : count;
                    batchEpoch += pick(c >> (3 + i), 4) == 0 ? 1 : 0;
                }
                int limit = pick(c, 3) == 0 ? epoch : batchEpoch;
                epoch = Math.max(epoch, limit);
                return append(parts, pick(a, 7) == 0 ? 1 + pick(b, 50) : 0, limit, false, pick(c, 15) == 0);
            }
            case 5 -> {
                return both("flush", log -> {
                    log.flush(pick(a, 4) == 0);
                    return "";
                });
            }
            case 6 -> {
                long offset = offset(a);
                return both("truncateTo " + offset, log -> {
                    log.truncateTo(offset);
                    return "";
                });
            }
            case 7 -> {
                OffsetAndEpoch at = new OffsetAndEpoch(offset(a), epochAround(b));
                return both("truncateToEndOffset " + at, log -> log.truncateToEndOffset(at));
            }
            case 8 -> {
                epoch += pick(a, 3);
                return both("initializeLeaderEpoch " + epoch, log -> {
                    log.initializeLeaderEpoch(epoch);
                    return "";
                });
            }
            case 9, 10 -> {
                long offset = pick(c, 3) == 0 ? real.log.endOffset().offset() : offset(a);
                boolean position = pick(b, 2) == 0;
                return both("updateHighWatermark " + offset + (position ? " with position" : ""), log -> {
                    log.updateHighWatermark(!position ? new LogOffsetMetadata(offset)
                        : offset == log.endOffset().offset() ? log.endOffset()
                        : read(log, offset, Isolation.UNCOMMITTED, 1).startOffsetMetadata);
                    return "";
                });
            }
            case 11, 12 -> {
                long offset = offset(a);
                Isolation isolation = pick(b, 2) == 0 ? Isolation.COMMITTED : Isolation.UNCOMMITTED;
                int bytes = pick(c, 3) == 0 ? 1 : pick(c, 700);
                return both("read " + offset + " " + isolation + " " + bytes, log -> {
                    LogFetchInfo info = read(log, offset, isolation, bytes);
                    return text(info.startOffsetMetadata) + " " + hex(info.records);
                });
            }
            case 13 -> {
                int of = epochAround(a);
                return both("endOffsetForEpoch " + of, log -> log.endOffsetForEpoch(of));
            }
            case 14 -> {
                long offset = offset(a);
                int of = epochAround(b);
                return both("validateOffsetAndEpoch " + offset + " " + of, log -> log.validateOffsetAndEpoch(offset, of));
            }
            case 15, 16 -> {
                long offset = pick(c, 2) == 0 ? real.log.highWatermark().offset() : offset(a);
                int of = pick(c, 3) == 0 ? epochAround(b) : epochOf(offset);
                return snapshot(new OffsetAndEpoch(offset, of), true, pick(b, 8) != 0);
            }
            case 17 -> {
                long offset = offset(a) + pick(b, 6);
                return snapshot(new OffsetAndEpoch(offset, epochAround(c)), false, pick(b, 8) != 0);
            }
            case 18 -> {
                return both("truncateToLatestSnapshot", RaftLog::truncateToLatestSnapshot);
            }
            case 19 -> {
                OffsetAndEpoch id = snapshotId(a, b);
                return both("deleteBeforeSnapshot " + id, log -> log.deleteBeforeSnapshot(id));
            }
            case 20 -> {
                clock.now += pick(a, 4) == 0 ? 60_000 : pick(a, 3000);
                return both("maybeClean at " + clock.now, RaftLog::maybeClean);
            }
            case 21 -> {
                OffsetAndEpoch id = snapshotId(a, b);
                return both("readSnapshot " + id, log -> slices(log.readSnapshot(id), pick(c, 80), 1 + pick(b, 90)));
            }
            case 22 -> {
                lines.append("restart\n");
                real.loseFrom(Long.MAX_VALUE - 1, 0);
                disk.end(1 << 20, -1, 0); // the kernel keeps what was written
                return reopen();
            }
            default -> {
                return losePower(pick(a, 3), pick(b, 3) == 0 ? 1 + pick(c, 60) : 0);
            }
        }
    }

    private String append(List<MemoryRecords> parts, int cut, int limit, boolean leader, boolean corrupt) {
        MemoryRecords records = joined(parts, cut);
        if (corrupt) {
            ByteBuffer bytes = records.buffer();
            bytes.put(bytes.limit() - 1, (byte) (bytes.get(bytes.limit() - 1) + 1));
        }
        String what = (leader ? "appendAsLeader " : "appendAsFollower ") + limit + (corrupt ? " corrupt" : "") + " cut " + cut;
        for (var each : records.batches()) {
            what += " " + each.baseOffset() + ".." + each.lastOffset() + "/" + each.partitionLeaderEpoch();
        }
        return both(what, log -> {
            MemoryRecords copy = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(records)));
            LogAppendInfo info = leader ? log.appendAsLeader(copy, limit) : log.appendAsFollower(copy, limit);
            return info.firstOffset() + ".." + info.lastOffset();
        });
    }

    private String snapshot(OffsetAndEpoch id, boolean checked, boolean freeze) {
        return both("createNewSnapshot" + (checked ? " " : "Unchecked ") + id + (freeze ? " frozen" : ""), log -> {
            Optional<RawSnapshotWriter> writer = checked ? log.createNewSnapshot(id) : log.createNewSnapshotUnchecked(id);
            writer.ifPresent(file -> {
                try (file) {
                    file.append(MemoryRecords.withSnapshotHeaderRecord(0, clock.now, id.epoch(), ByteBuffer.allocate(200),
                        new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(clock.now)));
                    file.append(batch(1, id.epoch(), 2, 40));
                    if (freeze) {
                        file.freeze();
                    }
                }
            });
            return writer.isPresent();
        });
    }

    private static String slices(Optional<RawSnapshotReader> reader, int from, int size) {
        return reader.map(file -> file.sizeInBytes() + " " + file.slice(from, size).sizeInBytes() + " "
            + hex((Records) file.records())).orElse("none");
    }

    /** Power loss on both: `keep` batches behind the last flush stay, and `torn` bytes of the next. */
    private String losePower(int keep, int torn) {
        lines.append("power loss, keep ").append(keep).append(" torn ").append(torn).append('\n');
        long before = disk.log.endOffset().offset();
        disk.end(keep, torn, 0);
        boolean cut = disk.log.endOffset().offset() < before;
        OUTCOMES.merge("powerLoss " + (!cut ? "nothing" : torn > 0 ? "torn" : "lost"), 1, Integer::sum);
        real.loseFrom(disk.log.endOffset().metadata().map(LogDifferential::numbers).orElseThrow()[0],
            disk.log.endOffset().metadata().map(LogDifferential::numbers).orElseThrow()[1]);
        return reopen();
    }

    private String reopen() {
        String[] outcomes = new String[2];
        outcomes[0] = outcome(() -> {
            disk.open(new Effects(), clock, config);
            return "open";
        });
        outcomes[1] = outcome(() -> {
            real.open();
            return "open";
        });
        return compare(outcomes);
    }

    // --- Comparison ---

    private interface Call {
        Object get() throws IOException;
    }

    private static String outcome(Call call) {
        try {
            return String.valueOf(call.get());
        } catch (Exception e) {
            String name = e.getClass().getSimpleName();
            return "throws " + (REFUSALS.contains(name) ? "KafkaException" : name);
        }
    }

    private String both(String what, Function<RaftLog, Object> call) {
        lines.append(what).append('\n');
        String ours = outcome(() -> call.apply(disk.log));
        String kind = List.of("true", "false", "none").contains(ours) || ours.startsWith("throws") ? ours : "done";
        OUTCOMES.merge(what.split(" ")[0] + " " + kind, 1, Integer::sum);
        return compare(ours, outcome(() -> call.apply(real.log)));
    }

    private String compare(String... outcomes) {
        if (!outcomes[0].equals(outcomes[1])) {
            return "ours: " + outcomes[0] + "\nKafka's: " + outcomes[1];
        }
        String ours = state(disk.log);
        String kafkas = state(real.log);
        return ours.equals(kafkas) ? null : "ours: " + ours + "\nKafka's: " + kafkas;
    }

    private static String state(RaftLog log) {
        return "start " + log.startOffset() + " end " + text(log.endOffset())
            + " high watermark " + outcome(() -> text(log.highWatermark()))
            + " last epoch " + outcome(log::lastFetchedEpoch)
            + " earliest " + log.earliestSnapshotId() + " latest " + log.latestSnapshotId();
    }

    private static LogFetchInfo read(RaftLog log, long offset, Isolation isolation, int maxBytes) {
        return log.read(offset, isolation); // BEFORE 4.3
        return log.read(offset, isolation, maxBytes); // SINCE 4.3
    }

    private static int[] numbers(OffsetMetadata metadata) {
        return Arrays.stream(metadata.toString().replaceAll("[^0-9]+", " ").trim().split(" "))
            .mapToInt(Integer::parseInt).toArray();
    }

    private static String text(LogOffsetMetadata offset) {
        return offset.offset() + offset.metadata().map(metadata -> " in " + Arrays.toString(numbers(metadata))).orElse("");
    }

    private static byte[] bytes(Records records) {
        ByteBuffer buffer;
        try {
            if (records instanceof FileRecords file) {
                buffer = ByteBuffer.allocate(file.sizeInBytes());
                file.readInto(buffer, 0);
            } else {
                buffer = ((MemoryRecords) records).buffer();
            }
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static String hex(Records records) {
        return java.util.HexFormat.of().formatHex(bytes(records));
    }

    // --- Sequences ---

    private static List<Operation> draw(long seed, int operations) {
        Random random = new Random(seed);
        List<Operation> drawn = new ArrayList<>();
        for (int i = 0; i < operations; i++) {
            int what = random.nextInt(24);
            if (what > 21 && random.nextInt(3) > 0) {
                what = random.nextInt(11); // restarts are rarer
            }
            drawn.add(new Operation(what, random.nextInt() >>> 1, random.nextInt() >>> 1, random.nextInt() >>> 1));
        }
        return drawn;
    }

    private record Result(int played, String lines, String difference) { }

    private static int folders;

    private static Result play(Path folder, List<Operation> operations) throws IOException {
        LogDifferential logs = new LogDifferential(folder.resolve(String.valueOf(folders++)));
        int played = 0;
        String difference = null;
        for (Operation operation : operations) {
            played++;
            difference = logs.play(operation);
            if (difference != null) {
                break;
            }
        }
        logs.real.delete();
        return new Result(played, logs.lines.toString(), difference);
    }

    /** Leaves out what a difference does not take. */
    private static Result shrink(Path folder, List<Operation> operations, Result red) throws IOException {
        List<Operation> left = new ArrayList<>(operations.subList(0, red.played));
        for (int size = left.size() / 2; size > 0; size /= 2) {
            for (int from = 0; from + size <= left.size();) {
                List<Operation> fewer = new ArrayList<>(left);
                fewer.subList(from, from + size).clear();
                Result result = play(folder, fewer);
                if (result.difference == null) {
                    from += size;
                } else {
                    left = new ArrayList<>(fewer.subList(0, result.played));
                    red = result;
                }
            }
        }
        return red;
    }

    public static void main(String[] args) throws IOException {
        int operations = 0;
        int differences = 0;
        for (long seed = Long.parseLong(args[1]); seed <= Long.parseLong(args[2]); seed++) {
            config = config(seed);
            List<Operation> drawn = draw(seed, Integer.parseInt(args[3]));
            Result result = play(Path.of(args[0]), drawn);
            operations += result.played;
            if (result.difference != null) {
                differences++;
                Result least = shrink(Path.of(args[0]), drawn, result);
                System.out.println("seed " + seed + "\n" + least.lines + least.difference);
            }
        }
        OUTCOMES.forEach((outcome, times) -> System.out.println(outcome + ": " + times));
        System.out.println(operations + " operations, " + differences + " differences");
    }
}
