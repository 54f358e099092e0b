import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.resource.*;

/** What Java's Admin can ask of a cluster, but for records: see DataOperations. */
final class AdminOperations {
    private static final String TOPIC = "java";

    /** Until every broker has seen what was changed. */
    private static final long SETTLE_MS = 1000;

    private final Program program;
    private final Admin admin;

    private AdminOperations(Program program, Admin admin) {
        this.program = program;
        this.admin = admin;
    }

    static void run(Program program, String brokers, String controllers) {
        Map<String, Object> options = Map.of("default.api.timeout.ms", 60000, "request.timeout.ms", 10000);
        Map<String, Object> toBrokers = new TreeMap<>(options);
        toBrokers.put("bootstrap.servers", brokers);
        Map<String, Object> toControllers = new TreeMap<>(options);
        toControllers.put("bootstrap.controllers", controllers);
        try (Admin admin = Admin.create(toBrokers);
                Admin controller = Admin.create(toControllers)) {
            AdminOperations all = new AdminOperations(program, admin);
            all.topics();
            all.configs();
            all.replicas();
            all.cluster();
            all.groups();
            all.controllers(controller);
            all.rolling();
            all.deletions();
        }
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(90, TimeUnit.SECONDS);
    }

    private void topics() {
        NewTopic topic = new NewTopic(TOPIC, 3, (short) 3);
        program.operation("create a topic, validate only", () -> created(admin.createTopics(
                List.of(topic), new CreateTopicsOptions().validateOnly(true))));
        program.operation("create a topic", () -> created(admin.createTopics(List.of(topic))));
        program.refused("create a topic that exists", TopicExistsException.class,
                () -> created(admin.createTopics(List.of(topic))));
        program.operation("create a topic with configurations", () -> {
            NewTopic other = new NewTopic("java-configured", 1, (short) 1);
            other.configs(Map.of("retention.ms", "1000", "cleanup.policy", "compact"));
            CreateTopicsResult result = admin.createTopics(List.of(other));
            Config config = get(result.config("java-configured"));
            return created(result, "java-configured") + ", retention.ms " + config.get("retention.ms").value();
        });
        program.refused("create a topic with an invalid value", InvalidConfigurationException.class, () -> {
            NewTopic other = new NewTopic("java-invalid", 1, (short) 1);
            other.configs(Map.of("retention.ms", "abc"));
            return created(admin.createTopics(List.of(other)), "java-invalid");
        });
        program.operation("create a topic with an assignment", () -> {
            NewTopic other = new NewTopic("java-placed", Map.of(0, List.of(2, 1), 1, List.of(3, 2)));
            return created(admin.createTopics(List.of(other)), "java-placed");
        });
        program.operation("create a topic with the brokers' defaults", () -> {
            NewTopic other = new NewTopic("java-defaults", Optional.empty(), Optional.empty());
            return created(admin.createTopics(List.of(other)), "java-defaults");
        });
        program.operation("list topics", () -> {
            Thread.sleep(SETTLE_MS);
            return get(admin.listTopics().names()).stream().filter(name -> name.startsWith(TOPIC)).sorted().toList();
        });
        program.operation("describe a topic", () -> described(TOPIC));
        program.operation("describe a topic by its id", () -> {
            Uuid id = get(admin.listTopics().namesToListings()).get(TOPIC).topicId();
            TopicCollection ids = TopicCollection.ofTopicIds(List.of(id));
            return get(admin.describeTopics(ids).allTopicIds()).get(id).name();
        });
        program.refused("describe an unknown topic", UnknownTopicOrPartitionException.class,
                () -> described("java-unknown"));
        program.operation("authorized operations of a topic", () -> {
            DescribeTopicsOptions options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
            return new TreeSet<>(get(admin.describeTopics(List.of(TOPIC), options).allTopicNames()).get(TOPIC)
                    .authorizedOperations());
        });
        program.operation("create partitions, validate only", () -> get(admin.createPartitions(
                Map.of(TOPIC, NewPartitions.increaseTo(5)), new CreatePartitionsOptions().validateOnly(true)).all()));
        program.operation("create partitions", () -> {
            get(admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(4))).all());
            Thread.sleep(SETTLE_MS);
            return described(TOPIC);
        });
        program.refused("create fewer partitions", InvalidPartitionsException.class,
                () -> get(admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(2))).all()));
    }

    private static String created(CreateTopicsResult result) throws Exception {
        return created(result, TOPIC);
    }

    private static String created(CreateTopicsResult result, String name) throws Exception {
        get(result.all());
        return get(result.numPartitions(name)) + " partitions, " + get(result.replicationFactor(name)) + " replicas, "
                + get(result.config(name)).entries().size() + " entries";
    }

    private String described(String name) throws Exception {
        TopicDescription found = get(admin.describeTopics(List.of(name)).allTopicNames()).get(name);
        TopicPartitionInfo first = found.partitions().get(0);
        return found.partitions().size() + " partitions, " + first.replicas().size() + " replicas, ELR " + first.elr();
    }

    private void configs() {
        ConfigResource topic = new ConfigResource(Type.TOPIC, TOPIC);
        ConfigResource broker = new ConfigResource(Type.BROKER, "1");
        ConfigResource everyBroker = new ConfigResource(Type.BROKER, "");
        program.operation("describe a topic's configuration", () -> entries(topic));
        program.operation("describe a broker's configuration", () -> entries(broker));
        program.operation("describe the brokers' common configuration", () -> entries(everyBroker));
        program.operation("describe synonyms and documentation", () -> {
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true)
                    .includeDocumentation(true);
            ConfigEntry entry = get(admin.describeConfigs(List.of(topic), options).all()).get(topic)
                    .get("retention.ms");
            return entry.type() + " " + entry.synonyms() + " " + entry.documentation();
        });
        program.operation("describe a broker's loggers", () -> {
            ConfigResource loggers = new ConfigResource(Type.BROKER_LOGGER, "1");
            get(admin.describeConfigs(List.of(loggers)).all()).get(loggers).entries();
            return "";
        });
        program.operation("alter configurations incrementally", () -> {
            alter(topic, "retention.ms", "60000", AlterConfigOp.OpType.SET);
            alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
            String both = value(topic, "cleanup.policy");
            alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
            String left = value(topic, "cleanup.policy");
            alter(topic, "cleanup.policy", "", AlterConfigOp.OpType.DELETE);
            return List.of(value(topic, "retention.ms"), both, left);
        });
        program.operation("alter configurations incrementally, validate only", () -> {
            AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(true);
            AlterConfigOp op = op("retention.ms", "5", AlterConfigOp.OpType.SET);
            get(admin.incrementalAlterConfigs(Map.of(topic, List.of(op)), options).all());
            return value(topic, "retention.ms");
        });
        program.refused("set an invalid value", InvalidConfigurationException.class,
                () -> alter(topic, "cleanup.policy", "foo", AlterConfigOp.OpType.SET));
        program.refused("set an unknown name", InvalidConfigurationException.class,
                () -> alter(topic, "nonsense", "1", AlterConfigOp.OpType.SET));
        program.operation("alter a broker's configuration", () -> {
            alter(broker, "message.max.bytes", "2000000", AlterConfigOp.OpType.SET);
            String found = value(broker, "message.max.bytes");
            alter(broker, "message.max.bytes", "", AlterConfigOp.OpType.DELETE);
            return found;
        });
        program.operation("alter the brokers' common configuration", () -> {
            alter(everyBroker, "message.max.bytes", "3000000", AlterConfigOp.OpType.SET);
            String found = value(broker, "message.max.bytes");
            alter(everyBroker, "message.max.bytes", "", AlterConfigOp.OpType.DELETE);
            return found;
        });
        program.refused("alter what a broker cannot change", InvalidRequestException.class,
                () -> alter(broker, "node.id", "7", AlterConfigOp.OpType.SET));
        program.operation("alter a broker's loggers", () -> {
            ConfigResource loggers = new ConfigResource(Type.BROKER_LOGGER, "1");
            return alter(loggers, "root", "INFO", AlterConfigOp.OpType.SET);
        });
        program.operation("configurations of client metrics", () -> {
            ConfigResource metrics = new ConfigResource(Type.CLIENT_METRICS, "java");
            alter(metrics, "interval.ms", "10000", AlterConfigOp.OpType.SET);
            return value(metrics, "interval.ms");
        });
        program.operation("configurations of a group", () -> {
            ConfigResource group = new ConfigResource(Type.GROUP, "java");
            alter(group, "consumer.session.timeout.ms", "46000", AlterConfigOp.OpType.SET);
            return value(group, "consumer.session.timeout.ms");
        });
        program.operation("list resources with configurations", () -> get(admin.listConfigResources().all()).stream()
                .map(ConfigResource::type).collect(Collectors.toCollection(TreeSet::new)));
    }

    private static AlterConfigOp op(String key, String value, AlterConfigOp.OpType type) {
        return new AlterConfigOp(new ConfigEntry(key, value), type);
    }

    private Object alter(ConfigResource at, String key, String value, AlterConfigOp.OpType type) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> change = Map.of(at, List.of(op(key, value, type)));
        return get(admin.incrementalAlterConfigs(change).all());
    }

    private String value(ConfigResource at, String key) throws Exception {
        Thread.sleep(SETTLE_MS);
        ConfigEntry entry = get(admin.describeConfigs(List.of(at)).all()).get(at).get(key);
        return entry.value() + " " + entry.source();
    }

    private String entries(ConfigResource of) throws Exception {
        Collection<ConfigEntry> found = get(admin.describeConfigs(List.of(of)).all()).get(of).entries();
        long types = found.stream().map(ConfigEntry::type).distinct().count();
        return found.size() + " entries of " + types + " types";
    }

    private void replicas() {
        TopicPartition partition = new TopicPartition("java-placed", 0);
        program.operation("reassign a partition", () -> {
            get(reassign(partition, 3, 1).all());
            return settled(partition);
        });
        program.operation("list reassignments", () -> get(admin.listPartitionReassignments().reassignments()));
        program.refused("cancel a reassignment that is none", NoReassignmentInProgressException.class, () -> get(
                admin.alterPartitionReassignments(Map.of(partition, Optional.empty())).all()));
        program.refused("reassign to an unknown broker", InvalidReplicaAssignmentException.class,
                () -> get(reassign(partition, 1, 99).all()));
        for (ElectionType type : ElectionType.values()) {
            program.refused("elect a leader, " + type.name().toLowerCase() + ", where none is needed",
                    ElectionNotNeededException.class, () -> get(admin.electLeaders(type, Set.of(partition)).all()));
        }
        program.operation("elect the preferred leader", () -> {
            get(reassign(partition, 1, 3).all());
            settled(partition);
            get(admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all());
            Thread.sleep(SETTLE_MS);
            return settled(partition);
        });
        program.operation("describe log directories", () -> {
            List<String> found = new ArrayList<>();
            get(admin.describeLogDirs(Set.of(1, 2, 3)).allDescriptions()).forEach((broker, places) -> places.forEach(
                    (path, place) -> found.add(broker + " " + replicas(place) + " " + place.totalBytes().isPresent())));
            return found;
        });
        program.operation("describe a replica's log directory", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
            return get(admin.describeReplicaLogDirs(Set.of(replica)).all()).get(replica).getCurrentReplicaOffsetLag()
                    + " behind";
        });
        program.operation("move a replica to a log directory", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
            String path = get(admin.describeLogDirs(Set.of(1)).allDescriptions()).get(1).keySet().iterator().next();
            return get(admin.alterReplicaLogDirs(Map.of(replica, path)).all());
        });
        program.refused("move a replica to an unknown log directory", LogDirNotFoundException.class, () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(TOPIC, 0, 1);
            return get(admin.alterReplicaLogDirs(Map.of(replica, "/nowhere")).all());
        });
    }

    private static long replicas(LogDirDescription place) {
        return place.replicaInfos().keySet().stream().filter(each -> each.topic().equals(TOPIC)).count();
    }

    private AlterPartitionReassignmentsResult reassign(TopicPartition partition, Integer... to) {
        NewPartitionReassignment target = new NewPartitionReassignment(List.of(to));
        return admin.alterPartitionReassignments(Map.of(partition, Optional.of(target)));
    }

    /** The replicas and the leader once nothing is on the way. */
    private String settled(TopicPartition of) throws Exception {
        for (int tries = 0; tries < 100; tries++) {
            TopicDescription topic = get(admin.describeTopics(List.of(of.topic())).allTopicNames()).get(of.topic());
            TopicPartitionInfo info = topic.partitions().get(of.partition());
            boolean moving = !get(admin.listPartitionReassignments().reassignments()).isEmpty();
            if (!moving && info.isr().size() == info.replicas().size()) {
                return info.replicas().stream().map(Node::id).toList() + " led by " + info.leader().id();
            }
            Thread.sleep(200);
        }
        throw new TimeoutException("the reassignment does not end");
    }

    private void cluster() {
        program.operation("describe the cluster", () -> {
            DescribeClusterOptions options = new DescribeClusterOptions().includeAuthorizedOperations(true)
                    .includeFencedBrokers(true);
            DescribeClusterResult found = admin.describeCluster(options);
            return get(found.clusterId()) + " " + get(found.nodes()).stream().map(Node::id).sorted().toList() + " "
                    + new TreeSet<>(get(found.authorizedOperations()));
        });
        program.operation("describe the quorum", () -> quorum(admin));
        program.operation("describe features", () -> {
            FeatureMetadata found = get(admin.describeFeatures().featureMetadata());
            return new TreeMap<>(found.finalizedFeatures()) + " of "
                    + new TreeMap<>(found.supportedFeatures()).keySet();
        });
        program.operation("update features, validate only", () -> get(admin.updateFeatures(
                Map.of("share.version", level(0)), new UpdateFeaturesOptions().validateOnly(true)).all()));
        program.operation("update features", () -> {
            UpdateFeaturesOptions options = new UpdateFeaturesOptions();
            get(admin.updateFeatures(Map.of("streams.version", level(0)), options).all());
            Thread.sleep(SETTLE_MS);
            return get(admin.describeFeatures().featureMetadata()).finalizedFeatures().get("streams.version");
        });
        program.refused("update a feature to an unknown level", InvalidUpdateVersionException.class, () -> get(
                admin.updateFeatures(Map.of("metadata.version", new FeatureUpdate((short) 99,
                FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all()));
        program.refused("unregister an unknown broker", BrokerIdNotRegisteredException.class,
                () -> get(admin.unregisterBroker(99).all()));
    }

    private static FeatureUpdate level(int level) {
        return new FeatureUpdate((short) level, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
    }

    private static String quorum(Admin of) throws Exception {
        QuorumInfo found = get(of.describeMetadataQuorum().quorumInfo());
        return found.voters().stream().map(QuorumInfo.ReplicaState::replicaId).sorted().toList() + " and "
                + found.observers().stream().map(QuorumInfo.ReplicaState::replicaId).sorted().toList() + ", nodes "
                + new TreeSet<>(found.nodes().keySet());
    }

    private void groups() {
        program.operation("list groups", () -> get(admin.listGroups().all()));
        program.operation("list transactions", () -> get(admin.listTransactions().all()));
    }

    private void controllers(Admin controller) {
        program.operation("ask controllers for the quorum", () -> quorum(controller));
        program.operation("ask controllers for the cluster", () -> get(controller.describeCluster().nodes()).stream()
                .map(Node::id).sorted().toList());
        program.operation("alter configurations at controllers", () -> {
            ConfigResource common = new ConfigResource(Type.BROKER, "");
            AlterConfigOp op = op("log.retention.ms", "7200000", AlterConfigOp.OpType.SET);
            get(controller.incrementalAlterConfigs(Map.of(common, List.of(op))).all());
            Thread.sleep(SETTLE_MS);
            String found = get(controller.describeConfigs(List.of(common)).all()).get(common).get("log.retention.ms")
                    .value();
            alter(common, "log.retention.ms", "", AlterConfigOp.OpType.DELETE);
            return found;
        });
        program.operation("describe a controller's configuration", () -> {
            ConfigResource own = new ConfigResource(Type.BROKER, "11");
            return get(controller.describeConfigs(List.of(own)).all()).get(own).entries().size() + " entries";
        });
        program.operation("ask controllers for features", () -> new TreeMap<>(
                get(controller.describeFeatures().featureMetadata()).finalizedFeatures()));
    }

    private void rolling() {
        program.operation("create topics while controllers restart", () -> {
            List<String> failed = new ArrayList<>();
            int[] count = {0};
            program.restartControllers(() -> {
                NewTopic topic = new NewTopic("java-rolling-" + count[0]++, 1, (short) 1);
                try {
                    get(admin.createTopics(List.of(topic)).all());
                } catch (Exception error) {
                    failed.add(Program.cause(error).getClass().getSimpleName());
                }
            });
            if (!failed.isEmpty()) {
                throw new IllegalStateException(failed.size() + " of " + count[0] + ": " + failed);
            }
            return "none fails";
        });
    }

    private void deletions() {
        program.operation("delete a topic by its id", () -> {
            Uuid id = get(admin.listTopics().namesToListings()).get("java-placed").topicId();
            get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            Thread.sleep(SETTLE_MS);
            return null;
        });
        program.operation("delete topics", () -> {
            Set<String> names = new TreeSet<>(get(admin.listTopics().names()));
            names.removeIf(name -> !name.startsWith(TOPIC));
            get(admin.deleteTopics(names).all());
            Thread.sleep(SETTLE_MS);
            return get(admin.listTopics().names()).stream().filter(names::contains).toList();
        });
        program.refused("delete an unknown topic", UnknownTopicOrPartitionException.class,
                () -> get(admin.deleteTopics(List.of("java-unknown")).all()));
    }
}
