import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own producer and consumer as clients of a run (workloads/data/java_clients.py).
 *
 * <p>Arguments: the bootstrap servers, and the time of one operation in ms. A line of input is a
 * request, a line of output an answer, both of fields with tabs between: the client's name, the
 * request's number, and then the command with its arguments, or "ok", "fail" or "info" with what it
 * found. Each client has a thread and does one request at a time. What a certain failure is, is
 * argued beside the commands. The program ends with its input.
 */
public final class Clients {
    private static final PrintStream OUT = System.out;
    private static String servers;
    private static int timeoutMs;

    private Clients() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // where Kafka logs
        servers = arguments[0];
        timeoutMs = Integer.parseInt(arguments[1]);
        Map<String, Client> clients = new HashMap<>();
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        producer(null, 0).close(Duration.ZERO); // the first use of its classes takes long
        answer("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            if (fields[2].equals("close")) {
                Client client = clients.remove(fields[0]);
                if (client != null) {
                    client.end();
                }
            } else {
                clients.computeIfAbsent(fields[0], name -> new Client()).submit(fields);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String... fields) {
        synchronized (OUT) {
            OUT.println(String.join("\t", fields));
            OUT.flush();
        }
    }

    private static Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("request.timeout.ms", timeoutMs / 4);
        settings.put("default.api.timeout.ms", timeoutMs / 2);
        settings.put("metadata.max.age.ms", 1000);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("enable.metrics.push", false);
        return settings;
    }

    private static KafkaProducer<String, String> producer(String id, int transactionMs) {
        Properties settings = common();
        settings.remove("default.api.timeout.ms");
        settings.put("linger.ms", 2);
        settings.put("delivery.timeout.ms", timeoutMs / 2);
        settings.put("max.block.ms", timeoutMs / 2);
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        if (id != null) {
            settings.put("transactional.id", id);
            settings.put("transaction.timeout.ms", transactionMs);
        }
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static ProducerRecord<String, String> record(String key, String value) {
        TopicPartition to = partition(key);
        return new ProducerRecord<>(to.topic(), to.partition(), null, value);
    }

    /** One process of the run. */
    private static final class Client implements ConsumerRebalanceListener {
        private final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
            Thread made = new Thread(task);
            made.setDaemon(true);
            return made;
        });
        private KafkaProducer<String, String> producer;
        private KafkaConsumer<String, String> consumer;
        private final Map<TopicPartition, Long> processed = new HashMap<>();
        /** Where the member is in each of its partitions, once it has processed something there. */
        private ConsumerGroupMetadata given;
        private boolean isNew;
        /** Whether the consumer's partitions have changed since the last answer. */

        void submit(String[] fields) {
            thread.submit(() -> {
                long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
                List<String> found = new ArrayList<>(List.of(fields[0], fields[1]));
                try {
                    found.addAll(perform(fields, end));
                } catch (Exception | Error error) {
                    found.addAll(List.of("info", name(error)));
                }
                answer(found.toArray(new String[0]));
            });
        }

        void end() {
            // Not by an interruption: amid the first use of a class it would spoil it for all.
            thread.submit(() -> {
                dropProducer();
                dropConsumer(Duration.ZERO);
            });
            thread.shutdown();
        }

        private List<String> perform(String[] fields, long end) throws Exception {
            switch (fields[2]) {
                case "transact":
                    return transact(fields, end);
                case "send":
                    return send(fields[3], fields[4]);
                case "consume":
                    return consume(fields);
                case "commit":
                    return commit(Long.parseLong(fields[3]));
                case "leave":
                    dropConsumer(Duration.ofMillis(Long.parseLong(fields[3])));
                    return List.of("ok");
                default:
                    throw new IllegalArgumentException(fields[2]);
            }
        }

        // --- producing ---

        private List<String> send(String key, String value) throws Exception {
            if (producer == null) {
                producer = producer(null, 0);
            }
            RecordMetadata at = producer.send(record(key, value)).get();
            return List.of("ok", at.topic() + "-" + at.partition(), Long.toString(at.offset()));
        }

        /** Arguments: function, transactional id, its time-out, then key and value of each append. */
        private List<String> transact(String[] fields, long end) throws Exception {
            String function = fields[3];
            int transactionMs = Integer.parseInt(fields[5]);
            List<ProducerRecord<String, String>> records = new ArrayList<>();
            for (int i = 6; i + 1 < fields.length; i += 2) {
                records.add(record(fields[i], fields[i + 1]));
            }
            try {
                if (producer == null) {
                    producer = producer(fields[4], transactionMs);
                    producer.initTransactions();
                }
                producer.beginTransaction();
                if (function.equals("zombie")) {
                    return zombie(fields[4], transactionMs, records, end);
                }
                sendAll(records, end);
            } catch (Exception error) {
                // No commit was asked for. The next initTransactions aborts what is open.
                dropProducer();
                return List.of("fail", name(error));
            }
            if (function.equals("abort")) {
                try {
                    producer.abortTransaction();
                } catch (RuntimeException error) {
                    dropProducer();
                }
                return List.of("fail", "aborted");
            }
            try {
                producer.commitTransaction();
                return List.of("ok", "");
            } catch (RuntimeException error) {
                dropProducer();
                return List.of("info", name(error));
            }
        }

        private void sendAll(List<ProducerRecord<String, String>> records, long end)
                throws Exception {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<String, String> record : records) {
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get(Math.max(1, end - System.nanoTime()), TimeUnit.NANOSECONDS);
            }
        }

        /** Another producer takes over, so that the commit does not happen, answered or not. */
        private List<String> zombie(
                String id, int transactionMs, List<ProducerRecord<String, String>> records, long end)
                throws Exception {
            int before = Math.max(1, records.size() - 1);
            sendAll(records.subList(0, before), end);
            KafkaProducer<String, String> fenced = producer;
            KafkaProducer<String, String> successor = producer(id, transactionMs);
            try {
                successor.initTransactions();
            } catch (RuntimeException error) {
                successor.close(Duration.ZERO);
                throw error;
            }
            try {
                sendAll(records.subList(before, records.size()), end);
                fenced.commitTransaction();
                return List.of("ok", "");
            } catch (Exception error) {
                return List.of("fail", name(error));
            } finally {
                fenced.close(Duration.ZERO);
                producer = successor;
            }
        }

        private void dropProducer() {
            if (producer != null) {
                producer.close(Duration.ZERO);
                producer = null;
            }
        }

        // --- consuming ---

        /**
         * Arguments: group, topic, group.instance.id or nothing, group.protocol, session.timeout.ms,
         * max.poll.interval.ms. Answers the member and its generation, its instance, whether its
         * partitions are new, these, and partition, offset and value of each record.
         */
        private List<String> consume(String[] fields) {
            if (consumer == null) {
                join(fields);
            }
            List<String> records = new ArrayList<>();
            ConsumerRecords<String, String> polled;
            try {
                polled = consumer.poll(Duration.ofMillis(100));
            } catch (RuntimeException error) {
                dropConsumer(Duration.ZERO);
                return List.of("fail", name(error));
            }
            for (ConsumerRecord<String, String> each : polled) {
                TopicPartition of = new TopicPartition(each.topic(), each.partition());
                processed.put(of, each.offset() + 1);
                records.addAll(List.of(of.toString(), Long.toString(each.offset()), each.value()));
            }
            ConsumerGroupMetadata member = isNew ? given : consumer.groupMetadata();
            List<String> found = new ArrayList<>(List.of("ok"));
            found.addAll(who(member, member.generationId()));
            found.add(isNew ? "new" : "");
            found.add(consumer.assignment().stream()
                    .map(TopicPartition::toString).sorted().collect(Collectors.joining(",")));
            found.addAll(records);
            isNew = false;
            return found;
        }

        private void join(String[] fields) {
            Properties settings = common();
            settings.put("group.id", fields[3]);
            settings.put("enable.auto.commit", false);
            settings.put("auto.offset.reset", "earliest");
            settings.put("isolation.level", "read_committed"); // so that offsets are stable ones
            settings.put("max.poll.records", 5);
            settings.put("fetch.max.wait.ms", 50);
            settings.put("max.poll.interval.ms", Integer.parseInt(fields[8]));
            if (!fields[5].isEmpty()) {
                settings.put("group.instance.id", fields[5]);
            }
            if (fields[6].equals("consumer")) {
                settings.put("group.protocol", "consumer");
            } else {
                int sessionMs = Integer.parseInt(fields[7]);
                settings.put("session.timeout.ms", sessionMs);
                settings.put("heartbeat.interval.ms", Math.max(1, sessionMs / 4));
            }
            consumer = new KafkaConsumer<>(
                    settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(fields[4]), this);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            given = consumer.groupMetadata();
            isNew = true;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            processed.keySet().removeAll(partitions);
        }

        /** Argument: how many ms the consumer pauses before it commits. */
        private List<String> commit(long pauseMs) throws InterruptedException {
            if (consumer == null || processed.isEmpty()) {
                return List.of("fail", "no-member");
            }
            Thread.sleep(pauseMs);
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            processed.forEach((of, at) -> offsets.put(of, new OffsetAndMetadata(at)));
            ConsumerGroupMetadata before = consumer.groupMetadata();
            List<String> found = new ArrayList<>();
            try {
                consumer.commitSync(offsets);
                found.add("ok");
                found.add("");
            } catch (RuntimeException error) {
                found.add("info"); // it may have been done, and then have been asked for again
                found.add(name(error));
            }
            // Of two generations the later one is said: it fences less.
            int generation =
                    Math.max(before.generationId(), consumer.groupMetadata().generationId());
            found.addAll(who(before, generation));
            offsets.forEach((of, at) ->
                    found.addAll(List.of(of.toString(), Long.toString(at.offset()))));
            return found;
        }

        private static List<String> who(ConsumerGroupMetadata member, int generation) {
            return List.of(
                    member.memberId(),
                    Integer.toString(generation),
                    member.groupInstanceId().orElse(""));
        }

        private void dropConsumer(Duration timeout) {
            processed.clear();
            if (consumer != null) {
                consumer.close(timeout);
                consumer = null;
            }
        }
    }

    private static String name(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return cause.getClass().getSimpleName();
    }
}
