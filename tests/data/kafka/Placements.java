// Writes placements-4.3.1.jsonl: what Kafka's StripedReplicaPlacer does with a source of randomness
// that draws 0 for ever, for clusters that are drawn from a seed.
//
//     java -cp 'LIBS/*' tests/data/kafka/Placements.java > tests/data/kafka/placements-4.3.1.jsonl

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

public class Placements {
    static class Zeros extends Random {
        @Override public int nextInt(int bound) { return 0; }
    }

    public static void main(String[] arguments) {
        Random drawn = new Random(431);
        for (int number = 0; number < 400; number++) {
            int racks = drawn.nextInt(5);
            List<UsableBroker> brokers = new ArrayList<>();
            StringBuilder described = new StringBuilder();
            int size = 1 + drawn.nextInt(9);
            for (int id = 0; id < size; id++) {
                Optional<String> rack = racks == 0 || drawn.nextInt(10) == 0
                    ? Optional.empty() : Optional.of("r" + drawn.nextInt(racks));
                boolean fenced = id > 0 && drawn.nextInt(4) == 0;
                brokers.add(new UsableBroker(id, rack, fenced));
                described.append(id == 0 ? "" : ",").append("[").append(id).append(",")
                    .append(rack.map(name -> "\"" + name + "\"").orElse("null")).append(",")
                    .append(fenced).append("]");
            }
            short factor = (short) (1 + drawn.nextInt(Math.min(size, 4)));
            int partitions = 1 + drawn.nextInt(20);
            List<List<Integer>> placed = new ArrayList<>();
            ClusterDescriber cluster = new ClusterDescriber() {
                @Override public Iterator<UsableBroker> usableBrokers() { return brokers.iterator(); }
                @Override public Uuid defaultDir(int broker) { return Uuid.ZERO_UUID; }
            };
            StripedReplicaPlacer placer = new StripedReplicaPlacer(new Zeros());
            for (PartitionAssignment one
                    : placer.place(new PlacementSpec(0, partitions, factor), cluster).assignments()) {
                placed.add(one.replicas());
            }
            System.out.println("{\"brokers\":[" + described + "],\"factor\":" + factor
                + ",\"placed\":" + placed.toString().replace(" ", "") + "}");
        }
    }
}
