package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.UnalignedMemoryRecords;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.raft.errors.RaftException;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletionStage;

/**
 * One incarnation of a node: Kafka's own KafkaRaftClient, with all that it sees of the world in our hands.
 *
 * <p>A step is what the raft thread does from the moment at which something wakes it until it has nothing more
 * to do: it polls until its queue is empty and nobody woke it, and once more. What it wants to wait then is
 * when it is woken next.
 */
final class SimNode {
    private static final ListenerName LISTENER = new ListenerName("CONTROLLER");
    private static final int PORT = 9093;
    private static final String OWN_CONFIG = "sim.";
    private static final SupportedVersionRange KRAFT_VERSIONS = new SupportedVersionRange((short) 0, (short) 1);
    private static final Pool POOL = new Pool();
    /** Polls within one step after which it is taken for one that never ends. */
    private static final int MOST_POLLS = 100_000;

    private interface Action {
        void run() throws Exception;
    }

    /** Buffers of batches, shared by all incarnations of this JVM. */
    private static final class Pool implements MemoryPool {
        private final ArrayDeque<ByteBuffer> free = new ArrayDeque<>();

        @Override
        public ByteBuffer tryAllocate(int size) {
            ByteBuffer buffer = free.poll();
            return buffer == null ? ByteBuffer.allocate(KafkaRaftClient.MAX_BATCH_SIZE_BYTES) : buffer;
        }

        @Override
        public void release(ByteBuffer buffer) {
            buffer.clear();
            free.add(buffer);
        }

        @Override
        public long size() {
            return Long.MAX_VALUE;
        }

        @Override
        public long availableMemory() {
            return Long.MAX_VALUE;
        }

        @Override
        public boolean isOutOfMemory() {
            return false;
        }
    }

    /** Values are bytes. */
    private static final class Values implements RecordSerde<byte[]> {
        @Override
        public int recordSize(byte[] data, ObjectSerializationCache cache) {
            return data.length;
        }

        @Override
        public void write(byte[] data, ObjectSerializationCache cache, Writable out) {
            out.writeByteArray(data);
        }

        @Override
        public byte[] read(Readable in, int size) {
            return in.readArray(size);
        }
    }

    final int id;
    final SimDisk disk;
    private final Effects effects;
    private final SimClock clock = new SimClock();
    private final SimInbox inbox = new SimInbox(clock);
    private final SimExpirations expirations = new SimExpirations(clock);
    private final SimChannel channel;
    private final SimListener listener;
    private KafkaRaftClient<byte[]> client;
    private String role = "";
    private int roleEpoch;
    private long waitedSince;
    private boolean alive = true;

    /** Starts the node that a frame describes. */
    SimNode(int id, SimDisk disk, Effects effects, SimChannel.Caps caps, DataInputStream in) throws IOException {
        this.id = id;
        this.disk = disk;
        this.effects = effects;
        channel = new SimChannel(LISTENER, effects, caps);
        listener = new SimListener(effects);
        clock.now = in.readLong();
        inbox.resumed = clock.now;
        waitedSince = clock.now;
        Uuid directory = new Uuid(in.readLong(), in.readLong());
        Random random = new Random(in.readLong());
        String cluster = Effects.text(in);
        boolean mayBeVoter = in.readBoolean();
        Map<String, String> all = new TreeMap<>();
        for (int n = in.readInt(); n > 0; n--) {
            String key = Effects.text(in);
            all.put(key, Effects.text(in));
        }
        Map<String, Object> config = new HashMap<>(all);
        config.keySet().removeIf(key -> key.startsWith(OWN_CONFIG));
        Map<Integer, InetSocketAddress> voters = new TreeMap<>();
        for (int n = in.readInt(); n > 0; n--) {
            int voter = in.readInt();
            voters.put(voter, InetSocketAddress.createUnresolved(Effects.text(in), in.readInt()));
        }
        List<InetSocketAddress> bootstrap = new ArrayList<>();
        for (int n = in.readInt(); n > 0; n--) {
            bootstrap.add(InetSocketAddress.createUnresolved(Effects.text(in), in.readInt()));
        }
        guarded(() -> {
            disk.open(effects, clock, all);
            client = new KafkaRaftClient<>(OptionalInt.of(id), directory, new Values(), channel, inbox, disk.log, POOL, clock,
                expirations, 500, mayBeVoter, cluster, bootstrap, endpoints(id), KRAFT_VERSIONS,
                new LogContext("[n" + id + "] "), random,
                new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, config, false)));
            client.register(listener);
            client.initialize(voters, disk.state, new Metrics(clock)); // BEFORE 4.0
            client.initialize(voters, disk.state, new Metrics(clock), ignored -> { }); // SINCE 4.0
            poll();
        });
    }

    private static Endpoints endpoints(int node) {
        return Endpoints.fromInetSocketAddresses(Map.of(LISTENER, InetSocketAddress.createUnresolved("n" + node, PORT)));
    }

    /** Writes the snapshot 0-0 that `kafka-storage format` makes for a dynamic quorum. */
    static void format(SimDisk disk, Map<Integer, Uuid> directories) {
        Map<Integer, VoterSet.VoterNode> voters = new TreeMap<>();
        directories.forEach((node, directory) -> voters.put(node,
            VoterSet.VoterNode.of(ReplicaKey.of(node, directory), endpoints(node), KRAFT_VERSIONS)));
        try (RecordsSnapshotWriter<byte[]> writer = new RecordsSnapshotWriter.Builder()
                .setTime(new SimClock())
                .setRawSnapshotWriter(disk.log.createNewSnapshotUnchecked(Snapshots.BOOTSTRAP_SNAPSHOT_ID).orElseThrow())
                .setKraftVersion(KRaftVersion.KRAFT_VERSION_1)
                .setVoterSet(Optional.of(VoterSet.fromMap(voters)))
                .setMemoryPool(POOL)
                .build(new Values())) {
            writer.freeze();
        }
        disk.endFlushes();
    }

    boolean isAlive() {
        return alive;
    }

    /** When the raft thread wants to be woken. */
    long wake() {
        return Math.min(clock.now + Math.max(0, inbox.timeout), expirations.next());
    }

    void step(long now, DataInputStream in) throws IOException {
        begin(now);
        for (int n = in.readInt(); n > 0; n--) {
            int kind = in.readByte();
            if (kind == 0) {
                long token = in.readLong();
                short api = in.readShort();
                short version = in.readShort();
                byte[] body = Effects.blob(in);
                guarded(() -> request(token, api, version, body));
            } else {
                int correlation = in.readInt();
                short version = in.readShort();
                byte[] body = Effects.blob(in);
                guarded(() -> {
                    if (kind == 1) {
                        channel.answer(correlation, version, body);
                    } else {
                        channel.fail(correlation, Errors.BROKER_NOT_AVAILABLE);
                    }
                });
            }
        }
        guarded(this::poll);
    }

    void append(long now, int epoch, byte[] value) {
        begin(now);
        guarded(() -> {
            try {
                effects.appended(client.prepareAppend(epoch >= 0 ? epoch : client.quorum().epoch(), List.of(value)));
                client.schedulePreparedAppend();
            } catch (RaftException e) {
                effects.refused(e.toString());
            }
            poll();
        });
    }

    void resign(long now) {
        begin(now);
        guarded(() -> {
            if (listener.leader().isLeader(id)) {
                client.resign(listener.leader().epoch());
            }
            poll();
        });
    }

    void shutdown(long now, int timeoutMs) {
        begin(now);
        guarded(() -> {
            client.shutdown(timeoutMs);
            poll();
        });
    }

    void snapshot(long now, long offset) {
        begin(now);
        guarded(() -> {
            try {
                if (listener.writeSnapshot(client, offset < 0 ? Long.MAX_VALUE : offset).isEmpty()) {
                    effects.refused("there is nothing to be put into a snapshot, or it exists");
                }
            } catch (IllegalArgumentException e) {
                effects.refused(e.toString());
            }
            poll();
        });
    }

    /** The wall clock is set: Kafka's futures time out by the clock that nobody sets (`SystemTimer`). */
    void setClock(long by) {
        expirations.set += by;
    }

    private void begin(long now) {
        disk.endFlushes();
        inbox.resumed = now;
        clock.now = now;
    }

    /** Ends the incarnation at what ends the raft thread of a real node. */
    private void guarded(Action action) {
        if (!alive) {
            return;
        }
        try {
            action.run();
        } catch (Throwable e) {
            alive = false;
            effects.fault(e);
        }
    }

    /** The raft thread, from waking to waiting. Futures that time out do so on another thread, at the time of the step. */
    private void poll() {
        expirations.expire();
        if (!inbox.isEmpty()) {
            clock.now = waitedSince;
        }
        int polls = 0;
        boolean more;
        do {
            more = !inbox.isEmpty();
            client.poll();
            if (!client.isRunning()) {
                alive = false;
                effects.down();
                return;
            }
            clock.now = inbox.resumed;
            more |= channel.answerUnsupported();
            if (++polls > MOST_POLLS) {
                throw new IllegalStateException("the raft thread polled " + polls + " times and has more to do");
            }
        } while (more || !inbox.isEmpty() || inbox.woken);
        waitedSince = clock.now;
        String is = role();
        int epoch = client.quorum().epoch();
        if (!is.equals(role) || epoch != roleEpoch) {
            role = is;
            roleEpoch = epoch;
            effects.role(is + " " + epoch);
        }
    }

    private String role() {
        QuorumState quorum = client.quorum();
        if (quorum.isProspective()) { // SINCE 4.0
            return "prospective"; // SINCE 4.0
        } // SINCE 4.0
        return quorum.isLeader() ? "leader"
            : quorum.isFollower() ? "follower"
            : quorum.isCandidate() ? "candidate"
            : quorum.isResigned() ? "resigned"
            : "unattached";
    }

    private void request(long token, short api, short version, byte[] body) {
        ApiMessage message = ApiKeys.forId(api).messageType.newRequest();
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
        if (api == ApiKeys.API_VERSIONS.id) { // what the server around the raft client answers
            ApiVersionsResponseData answer = new ApiVersionsResponseData();
            for (ApiKeys served : SimDriver.APIS) {
                answer.apiKeys().add(new ApiVersionsResponseData.ApiVersion()
                    .setApiKey(served.id)
                    .setMinVersion(served.oldestVersion())
                    .setMaxVersion(served.latestVersion(false)));
            }
            answer.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey()
                .setName(KRaftVersion.FEATURE_NAME)
                .setMinVersion(KRAFT_VERSIONS.min())
                .setMaxVersion(KRAFT_VERSIONS.max()));
            effects.reply(token, SimChannel.bytes(answer, version));
            return;
        }
        RaftRequest.Inbound inbound = new RaftRequest.Inbound(LISTENER, 0, version, message, clock.now);
        CompletionStage<RaftResponse.Outbound> answered = inbound.completion; // BEFORE 4.4
        client.handle(inbound); // BEFORE 4.4
        CompletionStage<RaftResponse.Outbound> answered = client.handle(inbound); // SINCE 4.4
        answered.whenComplete((response, error) -> {
            if (error != null) {
                effects.fault(error);
                return;
            }
            ApiMessage answer = response.data();
            if (answer instanceof FetchSnapshotResponseData snapshot) {
                snapshot.topics().forEach(topic -> topic.partitions().forEach(SimNode::inMemory));
            }
            effects.reply(token, SimChannel.bytes(answer, version));
        });
    }

    /** A slice of a snapshot as records that can be written to a buffer; Kafka's sends it from its file. */
    private static void inMemory(FetchSnapshotResponseData.PartitionSnapshot partition) {
        if (partition.unalignedRecords() instanceof UnalignedMemoryRecords slice) {
            partition.setUnalignedRecords(MemoryRecords.readableRecords(slice.buffer()));
        }
    }
}
