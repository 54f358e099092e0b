package org.apache.kafka.raft;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.CorruptRecordException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotReader;
import org.apache.kafka.snapshot.RawSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * A metadata log in memory that answers as Kafka's own does (KafkaRaftLog above UnifiedLog, LocalLog and
 * LeaderEpochFileCache), down to its oddities: a read stays within one segment, may cut its last batch and
 * always brings a whole first one; the high watermark is clamped to the log and may go back; appends as
 * follower may leave a hole; truncation within a batch removes the batch and ends the log at the offset.
 * tests/cluster/backends/sim/kafka holds the two beside each other.
 *
 * <p>What is durable: what was appended before the last flush. A power loss keeps a prefix of the batches
 * behind it, and perhaps the beginning of one more, which recovery drops. Leader epochs are synced when they
 * are assigned, and at the next start cut to what the log still has. The log's start is not durable: Kafka
 * takes that of the first segment.
 *
 * <p>Left out: rolling by time (seven days) and by full indexes (a million entries).
 */
final class SimLog implements RaftLog {
    static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    /** One batch as it lies in its segment. */
    private record Batch(long base, long last, int epoch, byte[] bytes, long segment, int position) {
        Batch withBytes(byte[] other) {
            return new Batch(base, last, epoch, other, segment, position);
        }
    }

    /** Where an offset lies; as Kafka's own, two of the same offset differ when the log has rolled in between. */
    private record Position(long segment, int position) implements OffsetMetadata { }

    /** What of a log is on the disk: of the batches the first `count`. */
    record Content(List<Batch> batches, int count, TreeMap<Long, Integer> segments, TreeMap<Integer, Long> epochs,
                   TreeMap<OffsetAndEpoch, byte[]> snapshots, long end, long flushed) { }

    private final SimDisk disk;
    private final SimSnapshots snapshots;
    private SimClock clock = new SimClock();
    private int segmentBytes;
    private long retentionBytes;
    private long retentionMs;

    private ArrayList<Batch> batches = new ArrayList<>();
    private boolean isShared;
    private TreeMap<Long, Integer> segments = new TreeMap<>(Map.of(0L, 0));
    private TreeMap<Integer, Long> epochs = new TreeMap<>();
    private long start;
    private long end;
    private long flushed;
    private LogOffsetMetadata highWatermark = new LogOffsetMetadata(0);

    SimLog(SimDisk disk) {
        this.disk = disk;
        snapshots = new SimSnapshots(disk);
    }

    // --- What survives ---

    /** An image is taken at each flush, so that it shares the list of batches with the log until one of them goes. */
    Content content() {
        isShared = true;
        return new Content(batches, batches.size(), new TreeMap<>(segments), new TreeMap<>(epochs), snapshots.all(),
            end, flushed);
    }

    /** The batches, to be changed otherwise than by an append. */
    private List<Batch> ownBatches() {
        if (isShared) {
            batches = new ArrayList<>(batches);
            isShared = false;
        }
        return batches;
    }

    void restore(Content earlier) {
        batches = new ArrayList<>(earlier.batches.subList(0, earlier.count));
        isShared = false;
        segments = new TreeMap<>(earlier.segments);
        epochs = new TreeMap<>(earlier.epochs);
        snapshots.restore(earlier.snapshots);
        end = earlier.end;
        flushed = earlier.flushed;
    }

    /**
     * The process ends: of the batches that were not flushed, `keep` stay whole, and `torn` bytes of the next. What
     * a power loss leaves is on the disk, flushed or not. Where the power stays on (`torn` < 0) the kernel has
     * it, and the next power loss may take it: Kafka reads it at its start, and flushes it with its next append.
     */
    void lose(int keep, int torn) {
        int whole = Math.min(batches.size(), indexOf(flushed) + keep);
        if (whole < batches.size()) {
            Batch next = batches.get(whole);
            cutTo(whole);
            end = next.base;
            if (torn > 0) {
                batches.add(next.withBytes(Arrays.copyOf(next.bytes, Math.min(torn, next.bytes.length - 1))));
                layOut();
            }
        }
        flushed = torn < 0 ? flushed : end;
    }

    /** Damage of a disk that does not keep its word; `n` counts batches from the end, from 1. */
    void spoil(int what, int n) {
        int index = batches.size() - n;
        Batch batch = batches.get(index);
        switch (what) {
            case 3 -> ownBatches().remove(index);
            case 4 -> cutTo(index);
            case 5 -> {
                byte[] next = ownBatches().get(index + 1).bytes;
                batches.set(index + 1, withValues(batches.get(index + 1), batch.bytes));
                batches.set(index, withValues(batch, next));
            }
            case 6 -> ownBatches().set(index, batch.withBytes(Arrays.copyOf(batch.bytes, batch.bytes.length / 2)));
            default -> throw new IllegalArgumentException("damage " + what);
        }
        layOut();
    }

    /** A batch with the values of another that has as many, and its own offsets and epoch. */
    private static Batch withValues(Batch batch, byte[] values) {
        byte[] bytes = values.clone();
        MutableRecordBatch copy = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next();
        copy.setLastOffset(batch.last);
        copy.setPartitionLeaderEpoch(batch.epoch);
        return batch.withBytes(bytes);
    }

    /** Puts the batches of each segment behind each other again. */
    private void layOut() {
        segments.replaceAll((base, size) -> 0);
        ownBatches().replaceAll(batch -> {
            int position = segments.get(batch.segment);
            segments.put(batch.segment, position + batch.bytes.length);
            return new Batch(batch.base, batch.last, batch.epoch, batch.bytes, batch.segment, position);
        });
    }

    /** Takes away the batches from an index on, with the segments that begin behind the last one left. */
    private void cutTo(int index) {
        if (index < batches.size()) {
            Batch first = batches.get(index);
            ownBatches().subList(index, batches.size()).clear();
            segments.tailMap(first.segment, false).clear();
            segments.put(first.segment, first.position);
        }
    }

    /**
     * A node opens its log after a power loss: what is invalid in a segment that was not flushed to its end
     * ends the log, the start is that of the first segment, and epochs and snapshots outside of the log go.
     */
    void open(SimClock nodeClock, Map<String, String> config) {
        clock = nodeClock;
        segmentBytes = Integer.parseInt(config.getOrDefault("internal.metadata.log.segment.bytes", "1073741824"));
        retentionBytes = Long.parseLong(config.getOrDefault("metadata.max.retention.bytes", "104857600"));
        retentionMs = Long.parseLong(config.getOrDefault("metadata.max.retention.ms", "604800000"));
        snapshots.piece = Integer.parseInt(config.getOrDefault("sim.snapshot.piece.bytes", "2147483647"));
        long unflushedSegment = segments.floorKey(Math.max(flushed, segments.firstKey()));
        for (int i = 0; i < batches.size(); i++) {
            if (batches.get(i).segment >= unflushedSegment && !isWhole(batches.get(i))) {
                cutTo(i);
            }
        }
        start = segments.firstKey();
        end = batches.isEmpty() ? segments.lastKey() : Math.max(batches.get(batches.size() - 1).last + 1, segments.lastKey());
        flushed = Math.min(flushed, end);
        for (Batch batch : batches) {
            if (epochs.isEmpty() || batch.epoch > epochs.lastKey()) {
                assignEpoch(batch.epoch, batch.base);
            }
        }
        epochs.values().removeIf(from -> from >= end);
        truncateEpochsFromStart();
        highWatermark = new LogOffsetMetadata(start);
        snapshots.deleteBelow(start);
        if (start > 0 && snapshots.count() == 0) {
            throw new IllegalStateException("the log begins at " + start + ", and there is no snapshot that ends there or behind");
        }
        truncateToLatestSnapshot();
    }

    private static boolean isWhole(Batch batch) {
        try {
            for (RecordBatch each : MemoryRecords.readableRecords(ByteBuffer.wrap(batch.bytes)).batches()) {
                each.ensureValid();
                return each.sizeInBytes() == batch.bytes.length;
            }
        } catch (CorruptRecordException e) {
            return false;
        }
        return false;
    }

    /** Up to where what the node has is durable; what a snapshot stands for is. */
    long flushed() {
        return Math.max(flushed, start);
    }

    /** Effects that say what is on the disk. */
    void put(Effects effects) {
        effects.disk(start, end, flushed(), highWatermark.offset());
        batches.forEach(batch -> effects.batch(batch.base, batch.last, batch.epoch, batch.bytes));
        snapshots.all().forEach((id, bytes) -> effects.checkpoint(id.offset(), id.epoch(), bytes));
    }

    // --- Appends ---

    @Override
    public LogAppendInfo appendAsLeader(Records records, int epoch) {
        return append(records, epoch, true);
    }

    public LogAppendInfo appendAsFollower(Records records, int epoch) {
        return append(records, epoch, false);
    }

    public LogAppendInfo appendAsFollower(Records records) {
        return append(records, Integer.MAX_VALUE, false);
    }

    private LogAppendInfo append(Records records, int epoch, boolean leader) {
        if (records.sizeInBytes() == 0) {
            throw new IllegalArgumentException("Attempt to append an empty record set");
        }
        List<MutableRecordBatch> valid = validate(records, epoch, leader);
        if (valid.isEmpty()) {
            throw new CorruptRecordException("Append failed unexpectedly: no valid batch");
        }
        long base = valid.get(0).baseOffset();
        if (base < end) {
            throw new KafkaException("Unexpected offset in append. First offset " + base + " is less than the next offset "
                + end + ". First 10 offsets in append: " + offsets(records, 10));
        }
        valid.forEach(batch -> assignEpoch(batch.partitionLeaderEpoch(), batch.baseOffset()));
        int size = valid.stream().mapToInt(MutableRecordBatch::sizeInBytes).sum();
        if (size > segmentBytes) {
            throw new KafkaException("append of " + size + " bytes to segments of " + segmentBytes);
        }
        long segment = segments.lastKey();
        int position = segments.get(segment);
        if (position > segmentBytes - size) {
            segment = Math.max(base, end);
            position = 0;
            segments.put(segment, 0);
            if (highWatermark.offset() >= end) {
                highWatermark = endOffset();
            }
        }
        for (MutableRecordBatch batch : valid) {
            ByteBuffer buffer = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(buffer);
            Batch stored = new Batch(batch.baseOffset(), batch.lastOffset(), batch.partitionLeaderEpoch(), buffer.array(),
                segment, position);
            batches.add(stored);
            position += stored.bytes.length;
            segments.put(segment, position);
            end = stored.last + 1;
            disk.effects().append(stored.base, stored.last, stored.epoch, stored.bytes);
            if (batch.isControlBatch()) {
                batch.forEach(record -> reportVoters(disk.effects(), record, record.offset()));
            }
        }
        return new LogAppendInfo(base, end - 1);
    }

    /** The effect of a control record which brings a voter set. */
    static void reportVoters(Effects effects, Record record, long offset) {
        if (ControlRecordType.parse(record.key()) == ControlRecordType.KRAFT_VOTERS) {
            Map<Integer, Uuid> voters = new TreeMap<>();
            ControlRecordUtils.deserializeVotersRecord(record).voters()
                .forEach(voter -> voters.put(voter.voterId(), voter.voterDirectoryId()));
            effects.voters(offset, voters);
        }
    }

    /** The batches that an append takes: as follower those before the first of a higher epoch than the node's own. */
    private static List<MutableRecordBatch> validate(Records records, int epoch, boolean leader) {
        List<MutableRecordBatch> valid = new ArrayList<>();
        boolean skip = false;
        for (RecordBatch each : records.batches()) {
            MutableRecordBatch batch = (MutableRecordBatch) each;
            if (leader && batch.partitionLeaderEpoch() != epoch) {
                throw new InvalidRecordException("Append from Raft leader did not set the batch epoch correctly, expected "
                    + epoch + " but the batch has " + batch.partitionLeaderEpoch());
            }
            skip |= !leader && batch.partitionLeaderEpoch() > epoch;
            if (skip) {
                continue;
            }
            if (!batch.isValid()) {
                throw new CorruptRecordException("Record is corrupt (stored crc = " + batch.checksum() + ")");
            }
            if (!valid.isEmpty() && valid.get(valid.size() - 1).lastOffset() >= batch.lastOffset()) {
                throw new KafkaException("Out of order offsets found in append: " + offsets(records, Integer.MAX_VALUE));
            }
            valid.add(batch);
        }
        return valid;
    }

    /**
     * The first offsets of an append, for a message. Kafka reads the records for its messages too: where one is
     * damaged, the raft client gets an InvalidRecordException, which it survives, in the place of what ends it.
     */
    private static String offsets(Records records, int most) {
        List<Long> offsets = new ArrayList<>();
        for (Record each : records.records()) {
            offsets.add(each.offset());
            if (offsets.size() == most) {
                break;
            }
        }
        return offsets.toString();
    }

    // --- Epochs ---

    @Override
    public void initializeLeaderEpoch(int epoch) {
        assignEpoch(epoch, end);
    }

    private void assignEpoch(int epoch, long from) {
        Map.Entry<Integer, Long> latest = epochs.lastEntry();
        if (latest == null || latest.getKey() != epoch || from < latest.getValue()) {
            Iterator<Map.Entry<Integer, Long>> backwards = epochs.descendingMap().entrySet().iterator();
            while (backwards.hasNext()) {
                Map.Entry<Integer, Long> entry = backwards.next();
                if (entry.getKey() < epoch && entry.getValue() < from) {
                    break;
                }
                backwards.remove();
            }
            epochs.put(epoch, from);
        }
    }

    /** The epoch in which the log begins now begins with the log. */
    private void truncateEpochsFromStart() {
        Integer epoch = null;
        while (!epochs.isEmpty() && epochs.firstEntry().getValue() <= start) {
            epoch = epochs.pollFirstEntry().getKey();
        }
        if (epoch != null) {
            epochs.put(epoch, start);
        }
    }

    @Override
    public int lastFetchedEpoch() {
        if (!epochs.isEmpty()) {
            return epochs.lastKey();
        }
        OffsetAndEpoch latest = snapshots.latest().orElse(null);
        if (latest == null) {
            return 0;
        }
        if (latest.offset() != start || latest.offset() != end) {
            throw new KafkaException("Log doesn't have a last fetch epoch and there is a snapshot (" + latest
                + "), but the log is " + start + ".." + end);
        }
        return latest.epoch();
    }

    @Override
    public OffsetAndEpoch endOffsetForEpoch(int epoch) {
        Map.Entry<Integer, Long> higher = epochs.higherEntry(epoch);
        if (epochs.isEmpty() || epoch > epochs.lastKey()) {
            return new OffsetAndEpoch(end, lastFetchedEpoch());
        }
        Integer floor = epochs.floorKey(epoch);
        int found = floor == null ? epoch : floor;
        long offset = higher == null ? end : higher.getValue();
        OffsetAndEpoch earliest = snapshots.earliest().orElse(null);
        // The log begins with the epoch: what diverges does so at the snapshot before it.
        if (earliest != null && offset == earliest.offset() && found == epoch) {
            return earliest;
        }
        return new OffsetAndEpoch(offset, found);
    }

    // --- Reads ---

    /** The first batch that ends at an offset or behind it. */
    private int indexOf(long offset) {
        int low = 0;
        int high = batches.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (batches.get(middle).last < offset) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    @Override
    public LogOffsetMetadata endOffset() {
        return new LogOffsetMetadata(end, Optional.of(new Position(segments.lastKey(), segments.lastEntry().getValue())));
    }

    @Override
    public long startOffset() {
        return start;
    }

    /** An offset with its position: that of the batch which has it, with the base of that batch. */
    private LogOffsetMetadata positionOf(long offset) {
        int index = indexOf(offset);
        if (index == batches.size()) {
            return endOffset();
        }
        Batch batch = batches.get(index);
        return new LogOffsetMetadata(batch.base, Optional.of(new Position(batch.segment, batch.position)));
    }

    @Override
    public LogOffsetMetadata highWatermark() {
        if (highWatermark.metadata().isEmpty()) {
            highWatermark = positionOf(highWatermark.offset());
        }
        return highWatermark;
    }

    public LogFetchInfo read(long offset, Isolation isolation) {
        return read(offset, isolation, 8 << 20); // what Kafka had before it became a setting
    }

    public LogFetchInfo read(long offset, Isolation isolation, int maxBytes) {
        LogOffsetMetadata limit = isolation == Isolation.COMMITTED ? highWatermark() : endOffset();
        if (offset < start || offset > end) {
            throw new OffsetOutOfRangeException("offset " + offset + " is not in " + start + ".." + end);
        }
        if (offset >= limit.offset()) {
            return new LogFetchInfo(MemoryRecords.EMPTY, offset == limit.offset() ? limit : positionOf(offset));
        }
        int index = indexOf(offset);
        if (index == batches.size()) {
            return new LogFetchInfo(MemoryRecords.EMPTY, endOffset());
        }
        Batch first = batches.get(index);
        Position limitPosition = (Position) limit.metadata().orElseThrow();
        int available = limitPosition.segment > first.segment ? segments.get(first.segment) - first.position
            : limitPosition.segment == first.segment ? limitPosition.position - first.position : 0;
        int size = Math.max(0, Math.min(available, Math.max(maxBytes, first.bytes.length)));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(size);
        for (int i = index; bytes.size() < size; i++) {
            byte[] batch = batches.get(i).bytes;
            bytes.write(batch, 0, Math.min(batch.length, size - bytes.size()));
        }
        return new LogFetchInfo(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes.toByteArray())), positionOf(offset));
    }

    @Override
    public void updateHighWatermark(LogOffsetMetadata offset) {
        long before = highWatermark.offset();
        highWatermark = offset.offset() < start ? new LogOffsetMetadata(start)
            : offset.offset() >= end ? endOffset()
            : offset.metadata().isPresent() && !(offset.metadata().get() instanceof Position)
                ? new LogOffsetMetadata(offset.offset()) : offset;
        if (highWatermark.offset() != before) {
            disk.effects().highWatermark(highWatermark.offset());
        }
    }

    // --- Truncation, flush, cleaning ---

    @Override
    public void truncateTo(long offset) {
        if (offset < highWatermark().offset()) {
            throw new IllegalArgumentException("Attempt to truncate to offset " + offset
                + ", which is below the current high watermark " + highWatermark.offset());
        }
        if (offset >= end) {
            epochs.values().removeIf(from -> from >= end);
        } else if (segments.firstKey() > offset) {
            truncateFully(offset);
        } else {
            cutTo(indexOf(offset));
            segments.tailMap(offset, false).clear();
            end = offset;
            flushed = Math.min(flushed, end);
            start = Math.min(start, end);
            epochs.values().removeIf(from -> from >= end);
            if (highWatermark.offset() >= end) {
                highWatermark = endOffset();
            }
        }
        disk.effects().truncate(end);
    }

    private void truncateFully(long offset) {
        ownBatches().clear();
        segments.clear();
        segments.put(offset, 0);
        epochs.clear();
        start = offset;
        end = offset;
        flushed = Math.min(flushed, end);
        disk.effects().logStart(start);
        updateHighWatermark(endOffset());
    }

    @Override
    public boolean truncateToLatestSnapshot() {
        OffsetAndEpoch latest = snapshots.latest().orElse(null);
        int epoch = epochs.isEmpty() ? 0 : epochs.lastKey();
        if (latest == null || latest.epoch() < epoch || (latest.epoch() == epoch && latest.offset() <= end)) {
            return false;
        }
        truncateFully(latest.offset());
        snapshots.deleteBefore(latest);
        return true;
    }

    @Override
    public void flush(boolean force) {
        if (end > flushed) {
            disk.beginFlush(Effects.LOG, end);
            flushed = end;
            disk.effects().flush(end);
        }
    }

    @Override
    public boolean deleteBeforeSnapshot(OffsetAndEpoch id) {
        if (!snapshots.contains(id) || start >= id.offset() || id.offset() > snapshots.latest().orElseThrow().offset()) {
            return false;
        }
        if (id.offset() > highWatermark.offset()) {
            throw new OffsetOutOfRangeException("Cannot increment the log start offset to " + id.offset()
                + " since it is larger than the high watermark " + highWatermark.offset());
        }
        start = id.offset();
        truncateEpochsFromStart();
        int deleted = 0;
        while (segments.size() > 1 && segments.higherKey(segments.firstKey()) <= start
                && segments.higherKey(segments.firstKey()) <= highWatermark.offset()) {
            long gone = segments.pollFirstEntry().getKey();
            ownBatches().removeIf(batch -> batch.segment == gone);
            deleted++;
        }
        deleted += snapshots.deleteBefore(id);
        disk.effects().logStart(start);
        return deleted > 0;
    }

    @Override
    public boolean maybeClean() {
        boolean bySize = retentionBytes >= 0 && cleanWhile(new Predicate<>() {
            private long size = snapshots.all().values().stream().mapToLong(bytes -> bytes.length).sum();

            @Override
            public boolean test(OffsetAndEpoch id) {
                boolean breach = sizeInBytes() + size > retentionBytes;
                size -= breach ? snapshots.all().get(id).length : 0;
                return breach;
            }
        });
        boolean byTime = retentionMs >= 0 && cleanWhile(id -> clock.now - timestampOf(id) > retentionMs);
        return bySize || byTime;
    }

    private long sizeInBytes() {
        return segments.values().stream().mapToLong(Integer::longValue).sum();
    }

    private long timestampOf(OffsetAndEpoch id) {
        RawSnapshotReader reader = snapshots.reader(id).orElseThrow();
        return Snapshots.lastContainedLogTimestamp(reader); // BEFORE 4.1
        return Snapshots.lastContainedLogTimestamp(reader, new LogContext()); // SINCE 4.1
    }

    /** Deletes snapshots from the oldest on, but never the last, while they are to be deleted and can be. */
    private boolean cleanWhile(Predicate<OffsetAndEpoch> isOver) {
        List<OffsetAndEpoch> ids = new ArrayList<>(snapshots.all().keySet());
        boolean cleaned = false;
        for (int i = 0; i + 1 < ids.size() && isOver.test(ids.get(i)) && deleteBeforeSnapshot(ids.get(i + 1)); i++) {
            cleaned = true;
        }
        return cleaned;
    }

    // --- Snapshots ---

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshot(OffsetAndEpoch id) {
        if (id.offset() < start) {
            return Optional.empty();
        }
        if (id.offset() > highWatermark().offset()) {
            throw new IllegalArgumentException("Cannot create a snapshot with an id (" + id
                + ") greater than the high-watermark (" + highWatermark.offset() + ")");
        }
        ValidOffsetAndEpoch valid = validateOffsetAndEpoch(id.offset(), id.epoch());
        if (valid.kind() != ValidOffsetAndEpoch.Kind.VALID) {
            throw new IllegalArgumentException("Snapshot id (" + id + ") is not valid according to the log: " + valid);
        }
        long base = read(id.offset(), Isolation.COMMITTED, 1).startOffsetMetadata.offset();
        if (base != id.offset()) {
            throw new IllegalArgumentException("Cannot create snapshot at offset (" + id.offset()
                + ") because it is not batch aligned: its batch begins at " + base);
        }
        return createNewSnapshotUnchecked(id);
    }

    @Override
    public Optional<RawSnapshotWriter> createNewSnapshotUnchecked(OffsetAndEpoch id) {
        return snapshots.writer(id);
    }

    @Override
    public Optional<RawSnapshotReader> readSnapshot(OffsetAndEpoch id) {
        return snapshots.reader(id);
    }

    @Override
    public Optional<RawSnapshotReader> latestSnapshot() {
        return latestSnapshotId().flatMap(this::readSnapshot);
    }

    @Override
    public Optional<OffsetAndEpoch> latestSnapshotId() {
        return snapshots.latest();
    }

    @Override
    public Optional<OffsetAndEpoch> earliestSnapshotId() {
        return snapshots.earliest();
    }

    /** Nothing: a writer of ours adds its snapshot itself. */
    @Override
    public void onSnapshotFrozen(OffsetAndEpoch id) {
    }

    @Override
    public TopicPartition topicPartition() {
        return PARTITION;
    }

    @Override
    public Uuid topicId() {
        return Uuid.METADATA_TOPIC_ID;
    }

    @Override
    public void close() {
    }
}
