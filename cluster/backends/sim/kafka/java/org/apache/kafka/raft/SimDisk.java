package org.apache.kafka.raft;

import org.apache.kafka.raft.generated.QuorumStateData;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The disk of one node, which outlives its incarnations: metadata log, snapshots, state file.
 *
 * <p>A slow flush. The one thread cannot stop within a step to wait for a disk, so that a step runs to its
 * end with flushes that take no time; whoever plays the world holds back what a step did from IN_FLUSH on,
 * until the flush would have ended. Nobody can see the difference: until then the node has sent nothing that
 * comes after, and gets nothing. Only a power loss in between could, so that an image of the disk is kept
 * from the beginning of each flush of the last step, and the power loss puts that one in place.
 */
final class SimDisk {
    private record Image(SimLog.Content log, QuorumStateData state) { }

    final SimLog log = new SimLog(this);
    final SimState state = new SimState(this);
    private final List<Image> flushes = new ArrayList<>();
    private Effects effects = new Effects();

    /** A node starts: recovery of the log, as after a power loss. */
    void open(Effects to, SimClock clock, Map<String, String> config) {
        effects = to;
        log.open(clock, config);
    }

    Effects effects() {
        return effects;
    }

    void beginFlush(int what, long offset) {
        flushes.add(new Image(log.content(), state.content()));
        effects.inFlush(what, offset);
    }

    /** The flushes of the last step have ended. */
    void endFlushes() {
        flushes.clear();
    }

    /** The process ends, with the power (`SimLog.lose`) or alone. */
    void end(int keep, int torn, int flush) {
        if (flush > 0) {
            Image image = flushes.get(flush - 1);
            log.restore(image.log);
            state.restore(image.state);
        }
        flushes.clear();
        log.lose(keep, torn);
    }

    /** Damage that no power loss does to a disk that keeps its word. */
    void spoil(int what, int n) {
        QuorumStateData content = state.content();
        switch (what) {
            case 1 -> state.clear();
            case 2 -> state.restore(content == null ? null : content.duplicate().setVotedId(-1)
                .setVotedDirectoryId(new QuorumStateData().votedDirectoryId()));
            default -> log.spoil(what, n);
        }
    }
}
