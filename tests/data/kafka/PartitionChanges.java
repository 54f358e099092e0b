// Calls Kafka's PartitionChangeBuilder on random partitions and writes what it answers, one line each.
//
// java -cp 'libs/*' PartitionChanges.java COUNT SEED; `tests/conformance/partition_changes.py` does
// so and describes the lines.

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.controller.PartitionChangeBuilder.Election;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class PartitionChanges {
    /** Below 16 Kafka's hash sets, and so its ELRs, are in ascending order. */
    static final int BROKERS = 8;
    static final Random RANDOM = new Random();

    // The partition.
    List<Integer> replicas, isr, adding, removing, elr, lastKnown;
    List<Uuid> directories;
    int leader;
    LeaderRecoveryState recovery;
    // The call.
    Election election;
    boolean elrEnabled;
    int minIsr;
    List<Integer> acceptable, unclean, toIsr, toReplicas, toAdding, toRemoving;
    LeaderRecoveryState toRecovery;
    int movedReplica = -1;
    Uuid movedTo;

    public static void main(String[] arguments) {
        RANDOM.setSeed(Long.parseLong(arguments[1]));
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < Integer.parseInt(arguments[0]); i++) {
            lines.append(new PartitionChanges().line()).append('\n');
        }
        System.out.print(lines);
    }

    PartitionChanges() {
        replicas = some(shuffled(IntStream.range(0, BROKERS).boxed().toList()), 1 + RANDOM.nextInt(5));
        isr = someOf(replicas, 0.6);
        elr = chance(0.5) ? List.of() : someOf(without(replicas, isr), 0.5);
        lastKnown = chance(0.6) ? List.of() : some(shuffled(replicas), 1 + RANDOM.nextInt(2));
        adding = chance(0.6) ? List.of() : someOf(replicas, 0.4);
        removing = chance(0.6) ? List.of() : someOf(without(replicas, adding), 0.4);
        directories = replicas.stream().map(replica -> directory(RANDOM.nextInt(5))).toList();
        leader = isr.isEmpty() || chance(0.2) ? -1 : oneOf(chance(0.9) ? isr : replicas);
        recovery = chance(0.8) ? LeaderRecoveryState.RECOVERED : LeaderRecoveryState.RECOVERING;

        election = Election.values()[RANDOM.nextInt(3)];
        elrEnabled = chance(0.7);
        minIsr = 1 + RANDOM.nextInt(3);
        // The controller asks about no broker that does not hold the partition (LeaderAcceptor).
        acceptable = someOf(replicas, oneOf(List.of(0.2, 0.7, 1.0)));
        if (chance(0.3)) {
            unclean = someOf(replicas, 0.3);
        }
        if (chance(0.5)) {
            toIsr = chance(0.7) ? without(isr, some(shuffled(replicas), 1)) : someOf(replicas, 0.6);
        }
        if (chance(0.3)) {
            reassign();
        } else if (chance(0.1)) {
            revert();
        }
        if (chance(0.2)) {
            toRecovery = oneOf(List.of(LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING));
        }
        if (chance(0.15)) {
            movedReplica = oneOf(replicas);
            movedTo = directory(RANDOM.nextInt(5));
        }
    }

    /** As PartitionReassignmentReplicas makes it of an assignment and a target. */
    void reassign() {
        List<Integer> kept = someOf(replicas, 0.6);
        List<Integer> target = new ArrayList<>(kept);
        target.addAll(someOf(without(IntStream.range(0, BROKERS).boxed().toList(), replicas), 0.3));
        if (target.isEmpty()) {
            target.add(oneOf(replicas));
        }
        toAdding = new ArrayList<>(new TreeSet<>(without(target, replicas)));
        toRemoving = new ArrayList<>(new TreeSet<>(without(replicas, target)));
        toReplicas = new ArrayList<>(target);
        toReplicas.addAll(toRemoving);
    }

    /** As a reassignment is cancelled. */
    void revert() {
        List<Integer> left = without(replicas, adding);
        if (!left.isEmpty()) {
            toReplicas = left;
            toAdding = List.of();
            toRemoving = List.of();
            toIsr = without(isr, adding);
        }
    }

    PartitionRegistration partition() {
        return new PartitionRegistration.Builder(). setReplicas(Replicas.toArray(replicas)).
                setDirectories(directories.toArray(new Uuid[0])). setIsr(Replicas.toArray(isr)).
                setAddingReplicas(Replicas.toArray(adding)). setRemovingReplicas(Replicas.toArray(removing)).
                setElr(Replicas.toArray(elr)). setLastKnownElr(Replicas.toArray(lastKnown)). setLeader(leader).
                setLeaderRecoveryState(recovery). setLeaderEpoch(1). setPartitionEpoch(1). build();
    }

    Optional<PartitionChangeRecord> build(List<Integer> uncleanReplicas) {
        PartitionChangeBuilder builder = new PartitionChangeBuilder(partition(), Uuid.ONE_UUID, 0,
                acceptable::contains, MetadataVersion.IBP_4_3_IV0, minIsr, elrEnabled);
        builder.setElection(election);
        builder.setDefaultDirProvider(replica -> directory(10 + replica));
        builder.setUncleanShutdownReplicas(uncleanReplicas);
        if (toIsr != null) builder.setTargetIsr(toIsr);
        if (toReplicas != null) builder.setTargetReplicas(toReplicas);
        if (toAdding != null) builder.setTargetAdding(toAdding);
        if (toRemoving != null) builder.setTargetRemoving(toRemoving);
        if (toRecovery != null) builder.setTargetLeaderRecoveryState(toRecovery);
        if (movedTo != null) builder.setDirectory(movedReplica, movedTo);
        return builder.build().map(ApiMessageAndVersion::message).map(PartitionChangeRecord.class::cast);
    }

    String line() {
        Optional<PartitionChangeRecord> record = build(unclean);
        List<Integer> left = record.map(PartitionChangeRecord::replicas).orElse(null);
        TreeSet<Integer> gone = new TreeSet<>(unclean == null ? List.of() : unclean);
        gone.addAll(without(replicas, left == null ? replicas : left));
        String plain = text(record);
        String withoutGone = text(build(new ArrayList<>(gone)));
        String line = String.join(" ",
                text(replicas), text(isr), text(adding), text(removing), text(elr), text(lastKnown),
                places(directories), leader < 0 ? "-" : "" + leader, "" + recovery.value(),
                election.name().substring(0, 1), elrEnabled ? "1" : "0", "" + minIsr, text(acceptable),
                text(unclean), text(toIsr), text(toReplicas), text(toAdding), text(toRemoving),
                toRecovery == null ? "." : "" + toRecovery.value(),
                movedTo == null ? "." : movedReplica + place(movedTo), "=", plain);
        return plain.equals(withoutGone) ? line : line + " ! " + withoutGone;
    }

    static String text(Optional<PartitionChangeRecord> found) {
        if (found.isEmpty()) {
            return "none";
        }
        PartitionChangeRecord record = found.get();
        return String.join(" ", text(record.replicas()), text(record.isr()),
                text(record.addingReplicas()), text(record.removingReplicas()),
                text(record.eligibleLeaderReplicas()), text(record.lastKnownElr()),
                record.directories() == null ? "." : places(record.directories()),
                record.leader() == -2 ? "." : record.leader() == -1 ? "-" : "" + record.leader(),
                record.leaderRecoveryState() == -1 ? "." : "" + record.leaderRecoveryState());
    }

    /** A digit for each broker, "-" for -1; "_" when there is none, "." for null. */
    static String text(List<Integer> ids) {
        if (ids == null) {
            return ".";
        }
        String digits = ids.stream().map(id -> id < 0 ? "-" : "" + id).collect(Collectors.joining());
        return digits.isEmpty() ? "_" : digits;
    }

    static Uuid directory(int number) {
        return new Uuid(0, 1000 + number);
    }

    static String place(Uuid directory) {
        return "" + (char) ('a' + directory.getLeastSignificantBits() - 1000);
    }

    static String places(List<Uuid> all) {
        return all.stream().map(PartitionChanges::place).collect(Collectors.joining());
    }

    static boolean chance(double probability) {
        return RANDOM.nextDouble() < probability;
    }

    static <T> T oneOf(List<T> all) {
        return all.get(RANDOM.nextInt(all.size()));
    }

    static List<Integer> shuffled(List<Integer> all) {
        List<Integer> copy = new ArrayList<>(all);
        Collections.shuffle(copy, RANDOM);
        return copy;
    }

    static List<Integer> some(List<Integer> all, int count) {
        return all.subList(0, Math.min(count, all.size()));
    }

    static List<Integer> someOf(List<Integer> all, double probability) {
        return shuffled(all).stream().filter(one -> chance(probability)).toList();
    }

    static List<Integer> without(List<Integer> all, List<Integer> those) {
        return all.stream().filter(one -> !those.contains(one)).toList();
    }
}
