import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.common.utils.Exit;

/** Kafka's own tools, each called as its script calls it, all in one JVM. */
final class ToolOperations {
    private static final String TOPIC = "tools";
    private static final String TOOLS = "org.apache.kafka.tools.";
    private static final String SCRATCH = "java.io.tmpdir";

    /** Thrown in the place of an end of the process. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;
    }

    private final Program program;
    private final String brokers;
    private final String controllers;
    private Integer code;

    private ToolOperations(Program program, String brokers, String controllers) {
        this.program = program;
        this.brokers = brokers;
        this.controllers = controllers;
        Exit.setExitProcedure((status, message) -> {
            // Some tools end in a try whose catch ends as well: the first word counts.
            code = code == null ? Integer.valueOf(status) : code;
            throw new Exited();
        });
        Exit.setShutdownHookAdder((name, hook) -> {}); // their last words are nobody's operation
    }

    static void run(Program program, String brokers, String controllers) {
        ToolOperations all = new ToolOperations(program, brokers, controllers);
        all.topics();
        all.configs();
        all.replicas();
        all.cluster();
        all.records();
        all.groups();
        all.tool("kafka-topics --delete", TOOLS + "TopicCommand", "--delete --topic tools.*");
        Exit.resetExitProcedure();
    }

    /** What a line of output says where it is equal on every cluster. */
    private interface Summary {
        Object of(String output);
    }

    private static final Summary NOTHING = output -> "";
    private static final Summary LINES = output -> output.lines().filter(line -> !line.isBlank()).count() + " lines";

    private static Summary matching(String pattern) {
        return output -> {
            Matcher found = Pattern.compile(pattern).matcher(output);
            List<String> words = new ArrayList<>();
            while (found.find()) {
                words.add(found.group());
            }
            if (words.isEmpty()) {
                throw new IllegalStateException("no " + pattern + " in " + firstLine(output));
            }
            return words.stream().sorted().distinct().collect(Collectors.joining(" "));
        };
    }

    /** The first line that names an exception, or the first at all. */
    private static String firstLine(String output) {
        List<String> lines = output.lines().filter(line -> !line.isBlank()).toList();
        String first = lines.isEmpty() ? "no output" : lines.get(0);
        return lines.stream().filter(line -> line.contains("Exception:")).findFirst().orElse(first);
    }

    private void tool(String name, String type, String arguments) {
        tool(name, type, arguments, NOTHING);
    }

    private void tool(String name, String type, String arguments, Summary summary) {
        program.operation(name, () -> summary.of(called(type, "--bootstrap-server " + brokers + " " + arguments)));
    }

    /** Calls a tool's main; returns what it printed. */
    private String called(String type, String arguments) throws Exception {
        return called(type, Arrays.asList(arguments.split(" ")), "");
    }

    private String called(String type, List<String> arguments, String input) throws Exception {
        Thread.sleep(300); // each tool is a new client, and may ask a broker that lags
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(output, true, StandardCharsets.UTF_8);
        code = null;
        String thrown = "";
        System.setOut(captured);
        System.setErr(captured);
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            scala.Console.withOut(captured, () -> {
                invoke(type, arguments);
                return null;
            });
        } catch (Exited ended) {
            thrown = "";
        } catch (Exception error) {
            thrown = "" + error;
            code = code == null ? Integer.valueOf(1) : code;
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        String said = output.toString(StandardCharsets.UTF_8);
        if (code != null && code != 0) {
            throw new IllegalStateException("exit code " + code + ": " + thrown + firstLine(said));
        }
        return said;
    }

    private static void invoke(String type, List<String> arguments) {
        try {
            Class.forName(type).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exited ended) {
                throw ended;
            }
            throw new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private void topics() {
        String type = TOOLS + "TopicCommand";
        tool("kafka-topics --create", type,
                "--create --topic tools --partitions 3 --replication-factor 3 --config retention.ms=5000");
        tool("kafka-topics --create --if-not-exists", type, "--create --topic tools --if-not-exists");
        tool("kafka-topics --create --replica-assignment", type,
                "--create --topic tools-placed --replica-assignment 2:1,3:2");
        tool("kafka-topics --list", type, "--list", matching("tools[-a-z]*"));
        tool("kafka-topics --describe", type, "--describe --topic tools", LINES);
        tool("kafka-topics --describe --topics-with-overrides", type,
                "--describe --topics-with-overrides --topic tools", matching("Configs: .*"));
        for (String kind : List.of("under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions",
                "unavailable-partitions")) {
            tool("kafka-topics --describe --" + kind, type, "--describe --topic tools --" + kind, LINES);
        }
        tool("kafka-topics --alter", type, "--alter --topic tools --partitions 4");
    }

    private void configs() {
        String type = "kafka.admin.ConfigCommand";
        tool("kafka-configs --alter, a topic", type,
                "--alter --entity-type topics --entity-name tools --add-config retention.ms=60000");
        tool("kafka-configs --describe, a topic", type, "--describe --entity-type topics --entity-name tools",
                matching("retention.ms=.*"));
        tool("kafka-configs --describe --all, a topic", type,
                "--describe --all --entity-type topics --entity-name tools", LINES);
        tool("kafka-configs --alter --delete-config", type,
                "--alter --entity-type topics --entity-name tools --delete-config retention.ms");
        tool("kafka-configs --alter, a broker", type,
                "--alter --entity-type brokers --entity-name 2 --add-config message.max.bytes=2000000");
        tool("kafka-configs --describe, a broker", type, "--describe --entity-type brokers --entity-name 2",
                matching("message.max.bytes=2000000.*"));
        tool("kafka-configs --describe --all, a broker", type, "--describe --all --entity-type brokers --entity-name 2",
                LINES);
        tool("kafka-configs --alter, all brokers", type,
                "--alter --entity-type brokers --entity-default --add-config log.retention.ms=7000000");
        tool("kafka-configs --describe, all brokers", type, "--describe --entity-type brokers --entity-default",
                matching("log.retention.ms=7000000"));
        tool("kafka-configs --describe, client metrics", type, "--describe --entity-type client-metrics");
        tool("kafka-configs --describe, groups", type, "--describe --entity-type groups");
        tool("kafka-configs --describe, loggers", type, "--describe --entity-type broker-loggers --entity-name 2");
        tool("kafka-configs --alter --delete-config, a broker", type,
                "--alter --entity-type brokers --entity-name 2 --delete-config message.max.bytes");
        program.operation("kafka-configs at controllers", () -> matching("log.retention.ms=7000000").of(called(type,
                "--bootstrap-controller " + controllers + " --describe --entity-type brokers" + " --entity-default")));
        tool("kafka-configs --alter --delete-config, all brokers", type,
                "--alter --entity-type brokers --entity-default --delete-config log.retention.ms");
        String metrics = TOOLS + "ClientMetricsCommand";
        tool("kafka-client-metrics --alter", metrics,
                "--alter --name tools --interval 10000 --metrics org.apache.kafka");
        tool("kafka-client-metrics --describe", metrics, "--describe --name tools", matching("interval.ms=10000"));
        tool("kafka-client-metrics --list", metrics, "--list", matching("tools"));
    }

    private void replicas() {
        String type = TOOLS + "reassign.ReassignPartitionsCommand";
        Path topics = Path.of(System.getProperty(SCRATCH), "topics.json");
        Path plan = Path.of(System.getProperty(SCRATCH), "plan.json");
        program.operation("kafka-reassign-partitions --generate", () -> {
            Files.writeString(topics, "{\"version\":1,\"topics\":[{\"topic\":\"tools\"}]}");
            String said = called(type, "--bootstrap-server " + brokers
                    + " --generate --broker-list 1,2,3 --topics-to-move-json-file " + topics);
            return LINES.of(said);
        });
        program.operation("kafka-reassign-partitions --execute", () -> {
            Files.writeString(plan, "{\"version\":1,\"partitions\":[{\"topic\":\"tools-placed\","
                    + "\"partition\":0,\"replicas\":[3,1]}]}");
            return matching("Successfully started.*").of(called(type, "--bootstrap-server " + brokers
                    + " --execute --throttle 1000000" + " --reassignment-json-file " + plan));
        });
        program.operation("kafka-reassign-partitions --verify", () -> {
            String said = "";
            for (int tries = 0; tries < 50 && !said.contains("is complete"); tries++) {
                Thread.sleep(200);
                said = called(type, "--bootstrap-server " + brokers + " --verify --reassignment-json-file " + plan);
            }
            return matching("(Reassignment of partition .*|Clearing .*)").of(said);
        });
        tool("kafka-reassign-partitions --list", type, "--list", matching("No partition.*"));
        program.operation("kafka-reassign-partitions --cancel", () -> called(type, "--bootstrap-server " + brokers
                + " --cancel --reassignment-json-file " + plan).replaceAll("\\s+", " "));
        String election = TOOLS + "LeaderElectionCommand";
        tool("kafka-leader-election", election, "--election-type preferred --topic tools-placed --partition 0",
                matching("(Successfully completed|Valid replica already elected).*"));
        tool("kafka-leader-election, all partitions", election, "--election-type unclean --all-topic-partitions");
        tool("kafka-log-dirs --describe", TOOLS + "LogDirsCommand", "--describe --topic-list tools",
                matching("\"partition\":\"tools-[0-9]\",\"size\":[0-9]*,\"offsetLag\":[0-9]*"));
    }

    private void cluster() {
        String quorum = TOOLS + "MetadataQuorumCommand";
        tool("kafka-metadata-quorum describe --status", quorum, "describe --status",
                matching("(ClusterId: .*|\"id\": [0-9]+)"));
        tool("kafka-metadata-quorum describe --replication", quorum, "describe --replication", LINES);
        program.operation("kafka-metadata-quorum at controllers", () -> matching("ClusterId.*").of(called(quorum,
                "--bootstrap-controller " + controllers + " describe --status")));
        String features = TOOLS + "FeatureCommand";
        tool("kafka-features describe", features, "describe", matching("Feature: [a-z.]+|FinalizedVersionLevel: \\S+"));
        tool("kafka-features upgrade --dry-run", features, "upgrade --feature share.version=1 --dry-run");
        tool("kafka-features downgrade", features, "downgrade --feature share.version=0",
                matching("share.version was.*"));
        tool("kafka-features upgrade", features, "upgrade --feature share.version=1");
        tool("kafka-broker-api-versions", TOOLS + "BrokerApiVersionsCommand", "", matching("id: [0-9]+"));
        String cluster = TOOLS + "ClusterTool";
        program.operation("kafka-cluster cluster-id", () -> called(cluster, "cluster-id --bootstrap-server " + brokers)
                .replaceAll("\\s+", " "));
        program.operation("kafka-cluster list-endpoints",
                () -> LINES.of(called(cluster, "list-endpoints --bootstrap-server " + brokers)));
        program.operation("kafka-cluster list-endpoints at controllers",
                () -> LINES.of(called(cluster, "list-endpoints --bootstrap-controller " + controllers)));
    }

    private void records() {
        program.operation("kafka-console-producer", () -> {
            called(TOOLS + "TopicCommand", "--bootstrap-server " + brokers
                    + " --create --topic tools-records --partitions 1" + " --replication-factor 3");
            called(TOOLS + "ConsoleProducer", List.of("--bootstrap-server", brokers, "--topic", "tools-records"),
                    "first\nsecond\n");
            return "";
        });
        program.operation("kafka-console-consumer, a partition", () -> called(TOOLS + "consumer.ConsoleConsumer",
                "--bootstrap-server " + brokers + " --topic tools-records --partition 0 --offset earliest"
                + " --max-messages 2 --timeout-ms 15000").lines().toList());
        program.operation("kafka-producer-perf-test", () -> matching("50 records sent").of(called(
                TOOLS + "ProducerPerformance", "--bootstrap-server " + brokers
                + " --topic tools-records --num-records 50" + " --record-size 100 --throughput -1")));
        tool("kafka-get-offsets", TOOLS + "GetOffsetShell", "--topic tools-records", matching("tools-records:.*"));
        tool("kafka-get-offsets --time earliest", TOOLS + "GetOffsetShell", "--topic tools-records --time earliest",
                matching("tools-records:.*"));
        program.operation("kafka-delete-records", () -> {
            Path file = Path.of(System.getProperty(SCRATCH), "delete.json");
            Files.writeString(file, "{\"version\":1,\"partitions\":[{\"topic\":\"tools-records\","
                    + "\"partition\":0,\"offset\":1}]}");
            return matching("low_watermark: [0-9]+").of(called(TOOLS + "DeleteRecordsCommand", "--bootstrap-server "
                    + brokers + " --offset-json-file " + file));
        });
        tool("kafka-transactions describe-producers", TOOLS + "TransactionsCommand",
                "describe-producers --topic tools-records --partition 0", matching("ProducerId"));
    }

    private void groups() {
        tool("kafka-groups --list", TOOLS + "GroupsCommand", "--list");
        tool("kafka-consumer-groups --list", TOOLS + "consumer.group.ConsumerGroupCommand", "--list");
        tool("kafka-transactions list", TOOLS + "TransactionsCommand", "list", LINES);
    }
}
