import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of share groups. */
final class ShareCommands {
    private static final AcknowledgeType[] TYPES = {
        AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
    };
    private final CommandLoop loop;
    private final Map<String, KafkaShareConsumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<String, String> groups = new HashMap<>();

    ShareCommands(CommandLoop loop) {
        this.loop = loop;
        CommandLoop.Operation others = loop.operations.get("close");
        loop.operations.put("open_share_consumer", this::open);
        loop.operations.put("share_poll", this::poll);
        loop.operations.put("close", command -> {
            var consumer = consumers.remove(command.get("client").asText());
            if (consumer != null) {
                consumer.close();
            }
            return others.run(command);
        });
    }

    private JsonNode open(JsonNode command) {
        String client = command.get("client").asText();
        Properties properties = loop.properties(command);
        properties.put("group.id", command.get("group").asText());
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        var consumer = new KafkaShareConsumer<byte[], byte[]>(properties);
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics);
        consumers.put(client, consumer);
        groups.put(client, command.get("group").asText());
        return null;
    }

    /** Poll and acknowledge: accept most, release the 5th, reject the 7th of every ten. */
    private JsonNode poll(JsonNode command) {
        String client = command.get("client").asText();
        var consumer = consumers.get(client);
        long deadline = System.nanoTime() + (long) (command.get("seconds").asDouble() * 1e9);
        int wanted = command.path("records").asInt(Integer.MAX_VALUE);
        int count = 0;
        while (System.nanoTime() < deadline && count < wanted) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                int turn = record.deliveryCount().orElse((short) 1) > 1 ? 0 : (int) (record.offset() % 10);
                consumer.acknowledge(record, TYPES[turn == 5 ? 1 : turn == 7 ? 2 : 0]);
                consumed(client, record);
                count++;
            }
            consumer.commitSync();
        }
        return CommandLoop.JSON.createObjectNode().put("records", count);
    }

    private void consumed(String client, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode event = loop.event("consumed", client);
        event.put("group", groups.get(client));
        event.put("topic", record.topic()).put("partition", record.partition());
        event.put("offset", record.offset()).put("timestamp_ms", record.timestamp());
        CommandLoop.describe(event, record.key(), record.value());
        event.put("header_count", record.headers().toArray().length);
    }
}
