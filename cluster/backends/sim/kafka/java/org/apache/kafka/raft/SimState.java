package org.apache.kafka.raft;

import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.KRaftVersion;

import java.nio.file.Path;
import java.util.Optional;

/**
 * The file quorum-state of one node. Kafka writes it aside, syncs it and moves it into its place: a power
 * loss leaves the file before or the file after, never a mixture.
 */
final class SimState implements QuorumStateStore {
    private final SimDisk disk;
    private QuorumStateData content;

    SimState(SimDisk disk) {
        this.disk = disk;
    }

    QuorumStateData content() {
        return content;
    }

    void restore(QuorumStateData earlier) {
        content = earlier;
    }

    @Override
    public Optional<ElectionState> readElectionState() {
        return Optional.ofNullable(content).map(ElectionState::fromQuorumStateData);
    }

    @Override
    public void writeElectionState(ElectionState state, KRaftVersion version) {
        disk.beginFlush(Effects.STATE_FILE, 0);
        content = state.toQuorumStateData(version.quorumStateVersion());
        put(disk.effects());
    }

    /** The effect that says what is in the file. */
    void put(Effects effects) {
        readElectionState().ifPresent(state -> effects.state(state.epoch(), state.leaderIdOrSentinel(),
            state.optionalVotedKey().map(ReplicaKey::id).orElse(-1)));
    }

    @Override
    public Path path() {
        return Path.of("quorum-state");
    }

    @Override
    public void clear() {
        content = null;
    }
}
