import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The agent of Apache's Java client, any version from 0.9: producers and consumers. */
public final class Agent extends CommandLoop {
    private final Map<String, Producer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, Consumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<String, ObjectNode> settings = new HashMap<>();

    private Agent(String bootstrap) {
        super(bootstrap);
        operations.put("versions", this::versions);
        operations.put("open_producer", this::openProducer);
        operations.put("begin", this::begin);
        operations.put("end", this::end);
        operations.put("send_offsets", this::sendOffsets);
        operations.put("produce", this::produce);
        operations.put("open_consumer", this::openConsumer);
        operations.put("poll", this::poll);
        operations.put("commit", this::commit);
        operations.put("close", this::close);
    }

    public static void main(String[] arguments) throws Exception {
        Agent agent = new Agent(arguments[0]);
        for (int i = 1; i < arguments.length; i++) { // commands that only new clients have
            Class.forName(arguments[i]).getDeclaredConstructor(CommandLoop.class).newInstance(agent);
        }
        agent.serve();
    }

    private JsonNode versions(JsonNode command) {
        return JSON.createObjectNode()
                .put("kafka-clients", AppInfoParser.getVersion())
                .put("java", System.getProperty("java.runtime.version"));
    }

    private JsonNode openProducer(JsonNode command) {
        String client = command.get("client").asText();
        Properties properties = properties(command);
        String transactionalId = text(command, "transactional_id");
        properties.putIfAbsent("compression.type", command.path("codec").asText("none"));
        properties.putIfAbsent("linger.ms", command.path("linger_ms").asInt(20));
        properties.putIfAbsent("batch.size", command.path("batch_size").asInt(16384));
        properties.putIfAbsent("buffer.memory", 64 * 1024 * 1024);
        properties.putIfAbsent("max.block.ms", 10000);
        properties.putIfAbsent("key.serializer", ByteArraySerializer.class.getName());
        properties.putIfAbsent("value.serializer", ByteArraySerializer.class.getName());
        String acks = command.path("acks").asText("all");
        properties.putIfAbsent("acks", acks);
        if (!command.path("idempotent").asBoolean(true)) {
            properties.put("enable.idempotence", false);
        }
        if (transactionalId != null) {
            properties.put("transactional.id", transactionalId);
        }
        Producer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        producers.put(client, producer);
        settings.put(client, JSON.createObjectNode()
                .put("codec", command.path("codec").asText("none")).put("acks", acks));
        if (transactionalId != null) {
            transact(producer, "initTransactions");
        }
        return null;
    }

    private JsonNode begin(JsonNode command) {
        String client = command.get("client").asText();
        settings.get(client).set("transaction", command.get("transaction"));
        transact(producers.get(client), "beginTransaction");
        return null;
    }

    private JsonNode end(JsonNode command) {
        String client = command.get("client").asText();
        boolean commits = settings.get(client).remove("transaction").asText().equals("committed");
        transact(producers.get(client), commits ? "commitTransaction" : "abortTransaction");
        return null;
    }

    private static void transact(Producer<byte[], byte[]> producer, String step) {
        Newer.call(producer, KafkaProducer.class, step, new Class<?>[0]);
    }

    /** Commit a consumer's positions within the producer's transaction. */
    private JsonNode sendOffsets(JsonNode command) {
        String client = command.get("client").asText();
        Consumer<byte[], byte[]> consumer = consumers.get(command.get("consumer").asText());
        Map<TopicPartition, OffsetAndMetadata> offsets = positions(consumer);
        Class<?> type = String.class;
        Object who = settings.get(command.get("consumer").asText()).get("group").asText();
        if (Newer.has(Consumer.class, "groupMetadata")) {
            type = Newer.type("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            who = Newer.callOr(consumer, Consumer.class, "groupMetadata", null);
        }
        Newer.call(producers.get(client), KafkaProducer.class, "sendOffsetsToTransaction",
                new Class<?>[] {Map.class, type}, offsets, who);
        return JSON.createObjectNode().put("partitions", offsets.size());
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(
            Consumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition place : consumer.assignment()) {
            offsets.put(place, new OffsetAndMetadata(consumer.position(place)));
        }
        return offsets;
    }

    private JsonNode produce(JsonNode command) throws Exception {
        String client = command.get("client").asText();
        Producer<byte[], byte[]> producer = producers.get(client);
        boolean each = command.path("each").asBoolean(false);
        boolean journal = command.path("journal").asBoolean(true);
        long pause = command.path("every_ms").asLong(0);
        List<Sent> waiting = new ArrayList<>();
        int count = 0;
        long valueBytes = 0;
        for (JsonNode record : records(command)) {
            Sent sent = new Sent(client, record);
            waiting.add(sent);
            sent.send(producer);
            count++;
            valueBytes += sent.value == null ? 0 : sent.value.length;
            if (each) {
                settle(waiting, journal);
            }
            Thread.sleep(pause);
        }
        producer.flush();
        settle(waiting, journal);
        return JSON.createObjectNode().put("records", count).put("value_bytes", valueBytes);
    }

    private void settle(List<Sent> waiting, boolean journal) throws Exception {
        for (Sent sent : waiting) {
            sent.await(journal);
        }
        waiting.clear();
    }

    private Iterable<JsonNode> records(JsonNode command) throws IOException {
        if (!command.has("records_file")) {
            return command.get("records");
        }
        List<JsonNode> records = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(command.get("records_file").asText()))) {
            records.add(JSON.readTree(line));
        }
        return records;
    }

    /** One record on its way: collects what is known of it, then emits it. */
    private final class Sent {
        private final String client;
        private final String topic;
        private final Integer partition;
        private final byte[] key;
        private final byte[] value;
        private final JsonNode headers;
        private int headerCount;
        private final ObjectNode clientSettings;
        private final long sentNs = now();
        private volatile long acknowledgedNs;
        private Future<RecordMetadata> answer;

        private Sent(String client, JsonNode record) {
            this.client = client;
            this.clientSettings = settings.get(client).deepCopy();
            this.topic = record.get("topic").asText();
            this.partition = record.hasNonNull("partition") ? record.get("partition").asInt() : null;
            this.key = bytes(text(record, "key"));
            this.value = bytes(text(record, "value"));
            this.headers = record.path("headers");
        }

        private void send(Producer<byte[], byte[]> producer) {
            ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(topic, partition, key, value);
            if (Newer.has(ProducerRecord.class, "headers")) {
                for (JsonNode header : headers) {
                    Headers.add(record, header.get(0).asText(), bytes(header.get(1).asText()));
                    headerCount++;
                }
            }
            answer = producer.send(record, (metadata, failure) -> acknowledgedNs = now());
        }

        private void await(boolean journal) throws Exception {
            RecordMetadata metadata;
            try {
                metadata = answer.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
            } catch (ExecutionException failure) {
                failed(client, "produce", failure.getCause(), topic, partition);
                return;
            }
            if (!journal) {
                return;
            }
            ObjectNode event = event("produced", client);
            event.put("topic", topic).put("partition", metadata.partition());
            if (metadata.offset() >= 0) {
                event.put("offset", metadata.offset());
            } else {
                event.putNull("offset");
            }
            event.put("timestamp_ms", (Long) Newer.callOr(metadata, RecordMetadata.class, "timestamp", -1L));
            describe(event, key, value);
            event.put("header_count", headerCount);
            event.setAll(clientSettings);
            event.put("sent_ns", sentNs).put("acknowledged_ns", acknowledgedNs);
        }
    }

    private JsonNode openConsumer(JsonNode command) {
        String client = command.get("client").asText();
        String group = text(command, "group");
        Properties properties = properties(command);
        if (group != null) {
            properties.put("group.id", group);
            properties.putIfAbsent("group.protocol", "classic");
        }
        properties.putIfAbsent("enable.auto.commit", false);
        properties.putIfAbsent("auto.offset.reset", "earliest");
        properties.putIfAbsent("isolation.level", command.path("isolation").asText("read_committed"));
        if (!"consumer".equals(properties.get("group.protocol"))) {
            properties.putIfAbsent("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        properties.putIfAbsent("fetch.max.wait.ms", command.path("max_wait_ms").asInt(500));
        properties.putIfAbsent("max.partition.fetch.bytes", command.path("fetch_size").asInt(1048576));
        properties.putIfAbsent("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.putIfAbsent("value.deserializer", ByteArrayDeserializer.class.getName());
        Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        consumers.put(client, consumer);
        settings.put(client, JSON.createObjectNode().put("group", group));
        if (command.hasNonNull("assign")) {
            assign(consumer, command.get("assign"));
        } else if (command.hasNonNull("pattern")) {
            Pattern topics = Pattern.compile(command.get("pattern").asText());
            consumer.subscribe(topics, new Listener(client, group, consumer));
        } else {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, new Listener(client, group, consumer));
        }
        return null;
    }

    private static void assign(Consumer<byte[], byte[]> consumer, JsonNode places) {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        for (JsonNode place : places) {
            offsets.put(place(place), place.get(2).asLong());
        }
        consumer.assign(new ArrayList<>(offsets.keySet()));
        offsets.forEach(consumer::seek);
    }

    /** Turns rebalance callbacks into events. */
    private final class Listener implements ConsumerRebalanceListener {
        private final String client;
        private final String group;
        private final Consumer<byte[], byte[]> consumer;

        private Listener(String client, String group, Consumer<byte[], byte[]> consumer) {
            this.client = client;
            this.group = group;
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalanced("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            rebalanced("revoked", partitions);
        }

        // overrides from 2.4 on
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            rebalanced("lost", partitions);
        }

        private void rebalanced(String what, Collection<TopicPartition> partitions) {
            ObjectNode event = event("rebalances", client);
            event.put("group", group).put("event", what);
            Object known = Newer.callOr(consumer, Consumer.class, "groupMetadata", null);
            if (known != null) {
                Class<?> type = Newer.type("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
                event.put("generation", (Integer) Newer.callOr(known, type, "generationId", null));
                event.put("member_id", (String) Newer.callOr(known, type, "memberId", null));
            }
            ArrayNode places = event.putArray("partitions");
            partitions.stream().sorted(Comparator.comparing(TopicPartition::toString))
                    .forEach(place -> places.addArray().add(place.topic()).add(place.partition()));
            event.put("time_ns", now());
        }
    }

    private JsonNode poll(JsonNode command) {
        String client = command.get("client").asText();
        Consumer<byte[], byte[]> consumer = consumers.get(client);
        boolean journal = command.path("journal").asBoolean(true);
        boolean commitEach = command.path("commit_each").asBoolean(false);
        int wanted = command.path("records").asInt(Integer.MAX_VALUE);
        int processes = command.path("processes").asInt(0);
        long deadline = System.nanoTime() + (long) (command.get("seconds").asDouble() * 1e9);
        int count = 0;
        while (System.nanoTime() < deadline && count < wanted) {
            try {
                ConsumerRecords<byte[], byte[]> records = poll(consumer);
                if (commitEach && !records.isEmpty()) {
                    consumer.commitSync();
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    count++;
                    if (journal) {
                        consumed(client, record);
                    }
                    if (count <= processes) {
                        processed(client, record);
                    }
                }
            } catch (OffsetOutOfRangeException failure) {
                TopicPartition place = failure.offsetOutOfRangePartitions().keySet().iterator().next();
                failed(client, "poll", failure, place.topic(), place.partition());
                break;
            }
        }
        return JSON.createObjectNode().put("records", count);
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(Consumer<byte[], byte[]> consumer) {
        boolean isNew = Newer.has(Consumer.class, "poll", Duration.class);
        Class<?>[] parameters = {isNew ? Duration.class : long.class};
        Object wait = isNew ? (Object) Duration.ofMillis(50) : (Object) 50L;
        return (ConsumerRecords<byte[], byte[]>)
                Newer.call(consumer, Consumer.class, "poll", parameters, wait);
    }

    private void consumed(String client, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode event = event("consumed", client);
        event.set("group", settings.get(client).get("group"));
        event.put("topic", record.topic()).put("partition", record.partition());
        event.put("offset", record.offset());
        event.put("timestamp_ms", (Long) Newer.callOr(record, ConsumerRecord.class, "timestamp", -1L));
        describe(event, record.key(), record.value());
        event.put("header_count", Headers.count(record));
        event.put("time_ns", now());
    }

    private void processed(String client, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode event = event("processed", client);
        event.set("group", settings.get(client).get("group"));
        event.put("topic", record.topic()).put("partition", record.partition());
        event.put("offset", record.offset());
    }

    private JsonNode commit(JsonNode command) {
        String client = command.get("client").asText();
        Consumer<byte[], byte[]> consumer = consumers.get(client);
        Map<TopicPartition, OffsetAndMetadata> offsets = positions(consumer);
        consumer.commitSync(offsets);
        offsets.forEach((place, committed) -> {
            ObjectNode event = event("commits", client);
            event.set("group", settings.get(client).get("group"));
            event.put("topic", place.topic()).put("partition", place.partition());
            event.put("offset", committed.offset());
            event.put("time_ns", now());
        });
        return null;
    }

    private JsonNode close(JsonNode command) {
        String client = command.get("client").asText();
        if (producers.containsKey(client)) {
            Producer<byte[], byte[]> producer = producers.remove(client);
            statistics(client, "producer-node-metrics", producer.metrics());
            producer.close();
        }
        if (consumers.containsKey(client)) {
            Consumer<byte[], byte[]> consumer = consumers.remove(client);
            statistics(client, "consumer-node-metrics", consumer.metrics());
            consumer.close();
        }
        return null;
    }

    private void statistics(
            String client, String group, Map<MetricName, ? extends Metric> metrics) {
        Statistics.add(event("statistics", client), group, metrics);
    }
}
