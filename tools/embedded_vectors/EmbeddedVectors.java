// Prints what Kafka's own serializers make of fixed values: a name and the bytes in hex, a line each.

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

public final class EmbeddedVectors {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 3);

    public static void main(String[] arguments) throws Exception {
        mirror();
        connect();
        consumer();
        streams();
    }

    private static void mirror() throws Exception {
        Checkpoint checkpoint = new Checkpoint("workers", ORDERS, 1234567890123L, 42, "kept");
        print("checkpoint-key", call(checkpoint, "recordKey"));
        print("checkpoint-value", call(checkpoint, "recordValue"));
        Heartbeat heartbeat = new Heartbeat("east", "west", 1700000000123L);
        print("heartbeat-key", call(heartbeat, "recordKey"));
        print("heartbeat-value", call(heartbeat, "recordValue"));
        OffsetSync sync = new OffsetSync(ORDERS, 1234567890123L, 42);
        print("offset-sync-key", call(sync, "recordKey"));
        print("offset-sync-value", call(sync, "recordValue"));
    }

    private static void connect() {
        List<ConnectorTaskId> tasks = List.of(new ConnectorTaskId("sink", 0), new ConnectorTaskId("sink", 1));
        String url = "http://worker:8083/";
        print("connect-subscription-0",
              ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(url, 9)));
        print("connect-assignment-0", ConnectProtocol.serializeAssignment(
              new ConnectProtocol.Assignment((short) 0, "leader", url, 9, List.of("sink"), tasks)));
        for (int version = 1; version <= 2; version++) {
            boolean sessioned = version == 2;
            ExtendedAssignment assignment = new ExtendedAssignment(
                (short) version, (short) 1, "leader", url, 9, List.of("sink"), tasks,
                List.of("source"), List.of(new ConnectorTaskId("source", 2)), 300000);
            print("connect-subscription-" + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                  new ExtendedWorkerState(url, 9, assignment), sessioned));
            print("connect-subscription-new-" + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                  new ExtendedWorkerState(url, 9, null), sessioned));
            print("connect-assignment-" + version,
                  IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, sessioned));
        }
    }

    private static void consumer() throws Exception {
        ByteBuffer userData = ByteBuffer.wrap(new byte[] {1, 2, 3});
        for (short version = 0; version <= 3; version++) {
            print("subscription-" + version, ConsumerProtocol.serializeSubscription(
                  new Subscription(List.of("orders", "users"), userData.duplicate(), List.of(ORDERS), 7,
                                   Optional.of("rack-a")), version));
            print("assignment-" + version, ConsumerProtocol.serializeAssignment(
                  new Assignment(List.of(ORDERS, new TopicPartition("orders", 5)), userData.duplicate()), version));
        }
        ConsumerGroupMetadata group = new ConsumerGroupMetadata("workers", 7, "m", Optional.empty());
        StickyAssignor sticky = new StickyAssignor();
        sticky.onAssignment(new Assignment(List.of(ORDERS)), group);
        print("sticky", sticky.subscriptionUserData(Set.of("orders")));
        CooperativeStickyAssignor cooperative = new CooperativeStickyAssignor();
        cooperative.onAssignment(new Assignment(List.of(ORDERS)), group);
        print("cooperative-sticky", cooperative.subscriptionUserData(Set.of("orders")));
    }

    private static void streams() throws Exception {
        UUID process = UUID.fromString("00010203-0405-0607-0809-0a0b0c0d0e0f");
        HostInfo host = new HostInfo("node", 9000);
        for (int version = 1; version <= 11; version++) {
            String topology = version >= 10 ? "named" : null;
            Map<TaskId, Long> sums = new TreeMap<>(Map.of(
                new TaskId(0, 2, topology), -2L, new TaskId(1, 0, topology), 77L));
            print("streams-subscription-" + version, new SubscriptionInfo(
                version, 11, new ProcessId(process), "node:9000", sums, (byte) 5, 0, Map.of("zone", "a")).encode());
            List<TaskId> active = List.of(new TaskId(0, 2, topology));
            Map<TaskId, Set<TopicPartition>> standby = Map.of(new TaskId(1, 0, topology), Set.of(ORDERS));
            AssignmentInfo assignment = new AssignmentInfo(
                version, 11, active, standby, Map.of(host, Set.of(ORDERS)),
                Map.of(host, Set.of(new TopicPartition("users", 1))), 0);
            assignment.setNextRebalanceTime(1700000000123L);
            print("streams-assignment-" + version, assignment.encode());
        }
    }

    private static byte[] call(Object object, String method) throws Exception {
        Method found = object.getClass().getDeclaredMethod(method);
        found.setAccessible(true);
        return (byte[]) found.invoke(object);
    }

    private static void print(String name, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        print(name, bytes);
    }

    private static void print(String name, byte[] bytes) {
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }
}
