package org.apache.kafka.raft;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage; // SINCE 4.4

/** The network of one node: a request is an effect with its bytes on the wire, its answer comes with a later step. */
final class SimChannel implements NetworkChannel {
    private record Sent(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> completion) { }

    private final ListenerName listener;
    private final Effects effects;
    private final Caps caps;
    private final Map<Integer, Sent> waiting = new HashMap<>();
    private final List<Integer> unsupported = new ArrayList<>();
    private int correlations;

    SimChannel(ListenerName listener, Effects effects, Caps caps) {
        this.listener = listener;
        this.effects = effects;
        this.caps = caps;
    }

    /** The highest version of each API that a peer understands, as the world knows it. */
    static final class Caps {
        private static final int ALL = -1;
        private final Map<Long, Short> caps = new HashMap<>();

        void clear() {
            caps.clear();
        }

        void put(short api, int destination, short version) {
            caps.put(key(api, destination), version);
        }

        short version(ApiKeys api, int destination) {
            Short cap = caps.getOrDefault(key(api.id, destination), caps.get(key(api.id, ALL)));
            short latest = api.latestVersion(false);
            return cap == null || cap > latest ? latest : cap;
        }

        private static long key(short api, int destination) {
            return ((long) api << 32) | (destination & 0xffffffffL);
        }
    }

    @Override
    public int newCorrelationId() {
        return correlations++;
    }

    @Override
    public ListenerName listenerName() {
        return listener;
    }

    @Override
    public void close() {
    }

    @Override
    public void send(RaftRequest.Outbound request) { // BEFORE 4.4
    public CompletionStage<RaftResponse.Inbound> send(RaftRequest.Outbound request) { // SINCE 4.4
        CompletableFuture<RaftResponse.Inbound> completion = request.completion; // BEFORE 4.4
        CompletableFuture<RaftResponse.Inbound> completion = new CompletableFuture<>(); // SINCE 4.4
        int correlation = request.correlationId();
        int destination = request.destination().id();
        ApiKeys api = ApiKeys.forId(request.data().apiKey());
        short version = caps.version(api, destination);
        waiting.put(correlation, new Sent(request, completion));
        try {
            byte[] body = bytes(request.data(), version);
            effects.send(correlation, destination, request.destination().host(), request.destination().port(),
                api.id, version, body);
        } catch (UnsupportedVersionException e) {
            unsupported.add(correlation);
        }
        return completion; // SINCE 4.4
    }

    /**
     * Answers requests that their peers' versions cannot carry, as Kafka's network thread does: not within
     * `send`, as the raft client is in the middle of a transition there. Returns whether there were any.
     */
    boolean answerUnsupported() {
        if (unsupported.isEmpty()) {
            return false;
        }
        List<Integer> now = List.copyOf(unsupported);
        unsupported.clear();
        now.forEach(correlation -> fail(correlation, Errors.UNSUPPORTED_VERSION));
        return true;
    }

    void answer(int correlation, short version, byte[] body) {
        Sent sent = waiting.remove(correlation);
        if (sent != null) {
            ApiMessage answer = ApiKeys.forId(sent.request.data().apiKey()).messageType.newResponse();
            answer.read(new ByteBufferAccessor(ByteBuffer.wrap(body)), version);
            complete(sent, answer);
        }
    }

    void fail(int correlation, Errors error) {
        Sent sent = waiting.remove(correlation);
        if (sent != null) {
            complete(sent, RaftUtil.errorResponse(ApiKeys.forId(sent.request.data().apiKey()), error));
        }
    }

    private static void complete(Sent sent, ApiMessage answer) {
        RaftRequest.Outbound request = sent.request;
        sent.completion.complete(new RaftResponse.Inbound(request.correlationId(), answer, request.destination()));
    }

    static byte[] bytes(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }
}
