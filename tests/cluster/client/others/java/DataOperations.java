import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** What Java's producer, consumer and Admin do with records. */
final class DataOperations {
    private static final String TOPIC = "java-data";
    private static final int LARGE = 900_000;

    private final Program program;
    private final String brokers;
    private final Admin admin;

    private DataOperations(Program program, String brokers, Admin admin) {
        this.program = program;
        this.brokers = brokers;
        this.admin = admin;
    }

    static void run(Program program, String brokers) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", brokers, "request.timeout.ms", 10000,
                "default.api.timeout.ms", 15000))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 8, (short) 3))).all().get();
            Thread.sleep(1000); // until every broker knows it
            DataOperations all = new DataOperations(program, brokers, admin);
            all.production();
            all.consumption();
            all.offsets();
            all.groups();
            admin.deleteTopics(List.of(TOPIC)).all().get();
        }
    }

    /** Produces and reads back; each operation has a partition of its own. */
    private void production() {
        for (String acks : List.of("0", "1", "all")) {
            program.operation("produce with acks=" + acks, () -> {
                int partition = List.of("0", "1", "all").indexOf(acks);
                Map<String, Object> options = Map.of("acks", acks, "enable.idempotence", false);
                return sent(options, record(partition, "k", "v" + acks));
            });
        }
        program.operation("produce idempotently",
                () -> sent(Map.of("enable.idempotence", true), record(3, "k", "once")));
        int partition = 4;
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            int own = partition++ % 8;
            program.operation("produce and consume, " + codec, () -> {
                long end = end(own);
                List<ProducerRecord<String, String>> records = new ArrayList<>();
                for (int each = 0; each < 50; each++) {
                    records.add(record(own, "k" + each, "v".repeat(100)));
                }
                sent(Map.of("compression.type", codec, "linger.ms", 50), records.toArray(new ProducerRecord[0]));
                return read(own, end, 50).size() + " records";
            });
        }
        program.operation("headers", () -> {
            ProducerRecord<String, String> record = record(0, "k", "v");
            record.headers().add("name", "value".getBytes()).add("empty", null);
            return headers(roundTrip(record));
        });
        program.operation("null key and value", () -> {
            ConsumerRecord<String, String> found = roundTrip(record(0, null, null));
            return found.key() + " " + found.value();
        });
        program.operation("a large record",
                () -> roundTrip(record(0, "k", "x".repeat(LARGE))).value().length() + " bytes");
        program.refused("a record that is too large", RecordTooLargeException.class, () -> {
            Map<String, Object> options = Map.of("max.request.size", 10_000_000);
            return sent(options, record(0, "k", "x".repeat(5_000_000)));
        });
        program.operation("a record's own time", () -> {
            ProducerRecord<String, String> record = new ProducerRecord<>(TOPIC, 0, 1_700_000_000_000L, "k", "v");
            return roundTrip(record).timestamp();
        });
    }

    private static ProducerRecord<String, String> record(int partition, String key, String value) {
        return new ProducerRecord<>(TOPIC, partition, key, value);
    }

    private static String headers(ConsumerRecord<String, String> found) {
        List<String> words = new ArrayList<>();
        found.headers().forEach(each -> words.add(each.key() + "=" + (each.value() == null ? null
                : new String(each.value()))));
        return words.toString();
    }

    @SafeVarargs
    private String sent(Map<String, Object> options, ProducerRecord<String, String>... records) throws Exception {
        Map<String, Object> all = new HashMap<>(options);
        all.put("bootstrap.servers", brokers);
        all.put("delivery.timeout.ms", 15000);
        all.put("request.timeout.ms", 5000);
        all.put("max.block.ms", 15000);
        try (Producer<String, String> producer =
                new KafkaProducer<>(all, new StringSerializer(), new StringSerializer())) {
            List<java.util.concurrent.Future<RecordMetadata>> results = new ArrayList<>();
            for (ProducerRecord<String, String> record : records) {
                results.add(producer.send(record));
            }
            long last = -1;
            for (var result : results) {
                last = result.get(20, TimeUnit.SECONDS).offset();
            }
            return "offset " + last;
        }
    }

    private ConsumerRecord<String, String> roundTrip(ProducerRecord<String, String> record) throws Exception {
        long end = end(record.partition());
        sent(Map.of(), record);
        return read(record.partition(), end, 1).get(0);
    }

    private long end(int partition) throws Exception {
        return offset(partition, OffsetSpec.latest());
    }

    private long offset(int partition, OffsetSpec spec) throws Exception {
        TopicPartition of = new TopicPartition(TOPIC, partition);
        return admin.listOffsets(Map.of(of, spec)).all().get(20, TimeUnit.SECONDS).get(of).offset();
    }

    private List<ConsumerRecord<String, String>> read(int partition, long from, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        consuming(Map.of(), consumer -> {
            TopicPartition own = new TopicPartition(TOPIC, partition);
            consumer.assign(List.of(own));
            consumer.seek(own, from);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
            while (found.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new TimeoutException(found.size() + " of " + count + " records");
                }
                consumer.poll(Duration.ofMillis(200)).forEach(found::add);
            }
        });
        return found;
    }

    private void consuming(Map<String, Object> options, Consumer<KafkaConsumer<String, String>> use) {
        Map<String, Object> all = new HashMap<>(options);
        all.put("bootstrap.servers", brokers);
        all.put("default.api.timeout.ms", 15000);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
            use.accept(consumer);
        }
    }

    private void consumption() {
        program.operation("consume from the beginning", () -> {
            ConsumerRecord<String, String> first = read(1, 0, 1).get(0);
            return first.offset() + " " + first.value() + " epoch " + first.leaderEpoch();
        });
        program.operation("consume committed records only", () -> {
            List<Object> found = new ArrayList<>();
            consuming(Map.of("isolation.level", "read_committed", "auto.offset.reset", "earliest"), consumer -> {
                consumer.assign(List.of(new TopicPartition(TOPIC, 2)));
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
                while (found.isEmpty() && System.nanoTime() < deadline) {
                    consumer.poll(Duration.ofMillis(200)).forEach(each -> found.add(each.value()));
                }
                if (found.isEmpty()) {
                    throw new TimeoutException("no record in 15 s");
                }
            });
            return found;
        });
        program.operation("consume from where there is nothing", () -> {
            long[] position = {-1};
            consuming(Map.of("auto.offset.reset", "earliest"), consumer -> {
                TopicPartition own = new TopicPartition(TOPIC, 2);
                consumer.assign(List.of(own));
                consumer.seek(own, 1_000_000);
                for (int tries = 0; tries < 50 && position[0] < 0; tries++) {
                    consumer.poll(Duration.ofMillis(200)).forEach(each -> position[0] = each.offset());
                }
            });
            if (position[0] < 0) {
                throw new TimeoutException("no record in 10 s");
            }
            return position[0];
        });
        program.operation("offsets for times", () -> {
            List<Object> found = new ArrayList<>();
            consuming(Map.of(), consumer -> {
                TopicPartition own = new TopicPartition(TOPIC, 2);
                found.add(consumer.offsetsForTimes(Map.of(own, 1L)).get(own).offset());
                found.add(consumer.offsetsForTimes(Map.of(own, Long.MAX_VALUE / 2)).get(own));
                found.add(consumer.beginningOffsets(List.of(own)).get(own));
                found.add(consumer.endOffsets(List.of(own)).get(own));
            });
            return found;
        });
    }

    private void offsets() {
        program.operation("earliest offset", () -> offset(2, OffsetSpec.earliest()));
        program.operation("latest offset", () -> offset(2, OffsetSpec.latest()));
        program.operation("offset of a time", () -> offset(2, OffsetSpec.forTimestamp(1)));
        program.operation("offset of the highest time", () -> offset(2, OffsetSpec.maxTimestamp()));
        program.operation("earliest local offset", () -> offset(2, OffsetSpec.earliestLocal()));
        program.operation("latest tiered offset", () -> offset(2, OffsetSpec.latestTiered()));
        program.operation("delete records", () -> {
            TopicPartition of = new TopicPartition(TOPIC, 4);
            DeleteRecordsResult result = admin.deleteRecords(Map.of(of, RecordsToDelete.beforeOffset(10)));
            long low = result.lowWatermarks().get(of).get(20, TimeUnit.SECONDS).lowWatermark();
            return low + " " + offset(4, OffsetSpec.earliest());
        });
        program.refused("delete records past the end", org.apache.kafka.common.errors.OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(new TopicPartition(TOPIC, 4), RecordsToDelete.beforeOffset(1_000_000)))
                .all().get(20, TimeUnit.SECONDS));
    }

    private void groups() {
        program.operation("consume in a group", () -> {
            List<String> found = new ArrayList<>();
            consuming(Map.of("group.id", "java", "auto.offset.reset", "earliest"), consumer -> {
                consumer.subscribe(List.of(TOPIC));
                long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
                while (found.isEmpty() && System.nanoTime() < deadline) {
                    consumer.poll(Duration.ofMillis(200)).forEach(each -> found.add(each.value()));
                }
                if (found.isEmpty()) {
                    throw new TimeoutException("no record in 15 s");
                }
            });
            return "";
        });
        program.operation("produce in a transaction", () -> {
            Map<String, Object> options = Map.of("bootstrap.servers", brokers, "transactional.id", "java",
                    "max.block.ms", 15000);
            try (Producer<String, String> producer = new KafkaProducer<>(
                    options, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(record(7, "k", "v")).get(20, TimeUnit.SECONDS);
                producer.commitTransaction();
            }
            return "";
        });
    }
}
