package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.raft.internals.KafkaRaftLog; // SINCE 4.3
import org.apache.kafka.server.util.Scheduler;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Kafka's own metadata log in a folder, and what happens to its files. */
final class RealLog {
    private final Path folder;
    private final SimClock clock;
    private final Map<String, String> config;
    RaftLog log;

    RealLog(Path folder, SimClock clock, Map<String, String> config) {
        this.folder = folder;
        this.clock = clock;
        this.config = config;
        open();
    }

    private static final class Done extends FutureTask<Void> implements ScheduledFuture<Void> {
        Done() {
            super(() -> null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }

    /** What Kafka leaves to a thread of its own is done at once. */
    private static final class AtOnce implements Scheduler {
        @Override
        public void startup() {
        }

        @Override
        public void shutdown() {
        }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            task.run();
            return new Done();
        }

        @Override
        public void resizeThreadPool(int size) {
        }
    }

    private Path dir() {
        return folder.resolve("__cluster_metadata-0");
    }

    void open() {
        MetadataLogConfig settings = new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, config, false));
        log = kafka.raft.KafkaMetadataLog.apply(SimLog.PARTITION, Uuid.METADATA_TOPIC_ID, dir().toFile(), // BEFORE 4.3
            clock, new AtOnce(), settings, 1); // BEFORE 4.3
        try { // SINCE 4.3
            log = KafkaRaftLog.createLog(SimLog.PARTITION, Uuid.METADATA_TOPIC_ID, dir().toFile(), clock, new AtOnce(), // SINCE 4.3
                settings, 1); // SINCE 4.3
        } catch (IOException e) { // SINCE 4.3
            throw new UncheckedIOException(e); // SINCE 4.3
        } // SINCE 4.3
    }

    /** The process ends, and of the file of a segment only the first bytes are there, and no later segment. */
    void loseFrom(long segment, int position) {
        log.close();
        try (Stream<Path> files = Files.list(dir())) {
            for (Path file : files.sorted(Comparator.naturalOrder()).toList()) {
                String name = file.getFileName().toString();
                if (name.matches("\\d{20}\\.(log|index|timeindex|snapshot)") && Long.parseLong(name.substring(0, 20)) > segment) {
                    Files.delete(file);
                } else if (name.equals(String.format("%020d.log", segment))) {
                    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                        channel.truncate(position);
                    }
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    void delete() {
        log.close();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
