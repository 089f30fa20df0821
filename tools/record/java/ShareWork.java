import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of share groups that work until they are told to stop, as those of {@link Work}. */
final class ShareWork {
    ShareWork(CommandLoop loop) {
        Work work = new Work(loop);
        loop.operations.put("start_sharing", command -> work.begin(command, new Sharing(loop, command)));
    }

    /** Acknowledges by `answer`: ACCEPT, RELEASE, REJECT; with NONE it holds the first records. */
    private static final class Sharing extends Work.Job {
        private final CommandLoop loop;
        private KafkaShareConsumer<byte[], byte[]> consumer;

        Sharing(CommandLoop loop, JsonNode command) {
            super(command);
            this.loop = loop;
        }

        @Override
        void work() throws Exception {
            if (consumer == null) {
                open();
            }
            var records = consumer.poll(Duration.ofMillis(100));
            count("read", records.count());
            String answer = command.path("answer").asText("ACCEPT");
            if (records.isEmpty()) {
                return;
            }
            if (answer.equals("NONE")) {
                pause(command.path("hold_ms").asLong(10_000));
                answer = "ACCEPT";
            }
            Thread.sleep(command.path("process_ms").asLong(0));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                consumer.acknowledge(record, AcknowledgeType.valueOf(answer));
            }
            consumer.commitSync();
        }

        private void open() {
            Properties properties = loop.properties(command);
            properties.put("group.id", command.get("group").asText());
            properties.put("share.acknowledgement.mode", "explicit");
            properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
            consumer = new KafkaShareConsumer<>(properties);
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
        }

        @Override
        void close() {
            if (consumer != null) {
                consumer.close(Duration.ofSeconds(3));
                consumer = null;
            }
        }
    }
}
