package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiKeys;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Plays the nodes of one release for a world that is elsewhere: frames in on the standard input, effects out
 * on the standard output, one answer to each frame. frames.py says how they are laid out.
 *
 * <p>Same frames, same effects, in any process: one thread, no clock, no chance but the seeds in the frames.
 * The one thing that a JVM draws for itself is the order in which `Set.of` and `Map.of` iterate (`grantingVoters`
 * of a LeaderChangeMessage, and the order of requests within a step, come from such sets). It lies in two static
 * fields, which are set here before any class of Kafka is loaded. Lookups do not use them, so that sets
 * which the JDK made before stay as they are; code that was compiled before has the old values folded in, which
 * is why the JVM must be started with the iterators excluded from compilation (classes.py).
 */
public final class SimDriver {
    private static final int BUFFER = 8192;
    private static final long SALT = 0x12345678L;
    private static final String ORDER = "[5, 4, 3, 2, 1] [1, 2] [n1, n5, n4, n3, n2] {5=e, 4=d, 3=c, 2=b, 1=a} [7, 6, 9, 8]";
    static final List<ApiKeys> APIS = List.of(ApiKeys.API_VERSIONS, ApiKeys.FETCH, ApiKeys.FETCH_SNAPSHOT,
        ApiKeys.VOTE, ApiKeys.BEGIN_QUORUM_EPOCH, ApiKeys.END_QUORUM_EPOCH, ApiKeys.DESCRIBE_QUORUM,
        ApiKeys.ADD_RAFT_VOTER, ApiKeys.REMOVE_RAFT_VOTER, ApiKeys.UPDATE_RAFT_VOTER);

    private final Map<Integer, SimNode> nodes = new HashMap<>();
    private final Map<Integer, SimDisk> disks = new HashMap<>();
    private final SimChannel.Caps caps = new SimChannel.Caps();
    private final Effects effects = new Effects();
    private static Effects lines = new Effects();

    private SimDriver() {
        lines = effects;
    }

    /** Whether log lines are wanted. */
    public static boolean logs() {
        return lines.logs;
    }

    /** A log line of Kafka's is an effect of the step that writes it. */
    public static void log(String line) {
        lines.log(line);
    }

    private byte[] call(byte[] frame) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(frame));
        int kind = in.readByte();
        if (kind == 0) {
            reset(in.readBoolean());
            return effects.take();
        }
        if (kind == 11) {
            short api = in.readShort();
            short version = in.readShort();
            caps.put(api, in.readInt(), version);
            return effects.take();
        }
        int id = in.readInt();
        SimDisk disk = disks.computeIfAbsent(id, node -> new SimDisk());
        boolean acts = true;
        switch (kind) {
            case 1 -> nodes.put(id, new SimNode(id, disk, effects, caps, in));
            case 2 -> node(id).step(in.readLong(), in);
            case 3 -> node(id).append(in.readLong(), in.readInt(), Effects.blob(in));
            case 7 -> node(id).resign(in.readLong());
            case 8 -> node(id).shutdown(in.readLong(), in.readInt());
            case 9 -> node(id).snapshot(in.readLong(), in.readLong());
            default -> {
                acts = false;
                keep(kind, id, disk, in);
            }
        }
        if (acts) {
            SimNode node = node(id);
            effects.end(node.isAlive(), node.wake(), disk.log.endOffset().offset(), disk.log.flushed());
        }
        return effects.take();
    }

    /** Frames that do not play a node. */
    private void keep(int kind, int id, SimDisk disk, DataInputStream in) throws IOException {
        switch (kind) {
            case 4 -> {
                nodes.remove(id);
                disk.end(in.readInt(), in.readInt(), in.readInt());
            }
            case 5 -> {
                Map<Integer, Uuid> voters = new TreeMap<>();
                for (int n = in.readInt(); n > 0; n--) {
                    voters.put(in.readInt(), new Uuid(in.readLong(), in.readLong()));
                }
                SimNode.format(disk, voters);
            }
            case 10 -> {
                disk.state.put(effects);
                disk.log.put(effects);
            }
            case 12 -> node(id).setClock(in.readLong());
            case 13 -> disk.spoil(in.readInt(), in.readInt());
            default -> throw new IllegalArgumentException("frame of kind " + kind);
        }
    }

    private SimNode node(int id) {
        SimNode node = nodes.get(id);
        if (node == null) {
            throw new IllegalArgumentException("node " + id + " does not run");
        }
        return node;
    }

    private void reset(boolean logs) {
        nodes.clear();
        disks.clear();
        caps.clear();
        effects.logs = logs;
        for (ApiKeys api : APIS) {
            effects.api(api.id, api.oldestVersion(), api.latestVersion(false));
        }
    }

    /** Sets the order of `Set.of`, and returns whether it is what it must be. */
    private static boolean fixOrder() {
        try {
            Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            unsafe.setAccessible(true);
            sun.misc.Unsafe memory = (sun.misc.Unsafe) unsafe.get(null);
            Class<?> collections = Class.forName("java.util.ImmutableCollections");
            Field salt = collections.getDeclaredField("SALT32L");
            Field reverse = collections.getDeclaredField("REVERSE");
            memory.putLong(memory.staticFieldBase(salt), memory.staticFieldOffset(salt), SALT);
            memory.putBoolean(memory.staticFieldBase(reverse), memory.staticFieldOffset(reverse), false);
        } catch (ReflectiveOperationException | RuntimeException e) {
            return false;
        }
        return order().equals(ORDER);
    }

    /** Sets and maps of each class that has an order. */
    private static String order() {
        return Set.of(1, 2, 3, 4, 5) + " " + Set.of(1, 2) + " " + Set.of("n1", "n2", "n3", "n4", "n5") + " "
            + Map.of(1, "a", 2, "b", 3, "c", 4, "d", 5, "e") + " " + Set.copyOf(List.of(6, 7, 8, 9));
    }

    /** Answers frames until the input ends. */
    public static void main(String[] args) throws IOException {
        if (!fixOrder()) {
            System.err.println("this JVM (" + System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version")
                + ") iterates over Set.of in an order of its own, so that no run could be repeated: " + order());
            System.exit(2);
        }
        SimDriver driver = new SimDriver();
        // The streams of files have a buffer of their own for up to 8 KiB, and allocate one each time for more.
        DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), BUFFER));
        DataOutputStream out = new DataOutputStream(
            new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), BUFFER));
        while (true) {
            byte[] answer;
            try {
                answer = driver.call(Effects.blob(in));
            } catch (EOFException e) {
                return;
            }
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }
}
