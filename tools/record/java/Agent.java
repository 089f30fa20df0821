import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
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
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * The agent of Apache's Java client. Commands, replies and events are those of clients/agent.py:
 * one JSON line each way, a command's name is the method that obeys it.
 */
public final class Agent {
    private static final long TIMEOUT_SECONDS = 20;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Map<String, Producer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, Consumer<byte[], byte[]>> consumers = new HashMap<>();
    private final Map<String, Admin> admins = new HashMap<>();
    private final Map<String, ObjectNode> settings = new HashMap<>();
    private ArrayNode events = JSON.createArrayNode();

    private Agent(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** A command's work: its arguments in, its result (or null) out. */
    private interface Operation {
        JsonNode run(JsonNode command) throws Exception;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // a library that prints must not speak in the agent's name
        Agent agent = new Agent(arguments[0]);
        Map<String, Operation> operations = agent.operations();
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            replies.println(agent.obey(operations, JSON.readTree(line)));
        }
        System.exit(0);
    }

    private Map<String, Operation> operations() {
        Map<String, Operation> operations = new HashMap<>();
        operations.put("versions", this::versions);
        operations.put("open_producer", this::openProducer);
        operations.put("begin", this::begin);
        operations.put("end", this::end);
        operations.put("produce", this::produce);
        operations.put("open_consumer", this::openConsumer);
        operations.put("poll", this::poll);
        operations.put("commit", this::commit);
        operations.put("close", this::close);
        operations.put("create_topics", this::createTopics);
        operations.put("delete_topics", this::deleteTopics);
        operations.put("create_partitions", this::createPartitions);
        operations.put("describe_cluster", this::describeCluster);
        operations.put("describe_topics", this::describeTopics);
        operations.put("describe_topic_configs", this::describeTopicConfigs);
        operations.put("list_offsets", this::listOffsets);
        operations.put("list_groups", this::listGroups);
        operations.put("describe_group", this::describeGroup);
        operations.put("group_offsets", this::groupOffsets);
        operations.put("delete_records", this::deleteRecords);
        operations.put("delete_group", this::deleteGroup);
        operations.put("list_topics", this::listTopics);
        return operations;
    }

    private JsonNode obey(Map<String, Operation> known, JsonNode command) {
        events = JSON.createArrayNode();
        ObjectNode reply = JSON.createObjectNode();
        reply.put("start_ns", now());
        reply.putNull("result");
        reply.putNull("error");
        try {
            reply.set("result", known.get(command.get("op").asText()).run(command));
        } catch (Exception failure) {
            reply.put("error", failure.toString());
        }
        reply.put("end_ns", now());
        reply.set("events", events);
        return reply;
    }

    private JsonNode versions(JsonNode command) {
        return JSON.createObjectNode()
                .put("kafka-clients", AppInfoParser.getVersion())
                .put("java", System.getProperty("java.runtime.version"));
    }

    private JsonNode openProducer(JsonNode command) {
        String client = command.get("client").asText();
        Properties properties = properties(client);
        String transactionalId = text(command, "transactional_id");
        properties.put("compression.type", command.path("codec").asText("none"));
        properties.put("linger.ms", command.path("linger_ms").asInt(20));
        properties.put("batch.size", command.path("batch_size").asInt(16384));
        properties.put("buffer.memory", 64 * 1024 * 1024);
        properties.put("max.block.ms", 10000);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        String acks = command.path("acks").asText("all");
        properties.put("acks", acks);
        if (!command.path("idempotent").asBoolean(true)) {
            properties.put("enable.idempotence", false);
        }
        if (transactionalId != null) {
            properties.put("transactional.id", transactionalId);
        }
        addSettings(properties, command);
        Producer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        producers.put(client, producer);
        settings.put(client, JSON.createObjectNode()
                .put("codec", command.path("codec").asText("none")).put("acks", acks));
        if (transactionalId != null) {
            producer.initTransactions();
        }
        return null;
    }

    private JsonNode begin(JsonNode command) {
        String client = command.get("client").asText();
        settings.get(client).set("transaction", command.get("transaction"));
        producers.get(client).beginTransaction();
        return null;
    }

    private JsonNode end(JsonNode command) {
        String client = command.get("client").asText();
        if (settings.get(client).remove("transaction").asText().equals("committed")) {
            producers.get(client).commitTransaction();
        } else {
            producers.get(client).abortTransaction();
        }
        return null;
    }

    private JsonNode produce(JsonNode command) throws Exception {
        String client = command.get("client").asText();
        Producer<byte[], byte[]> producer = producers.get(client);
        boolean each = command.path("each").asBoolean(false);
        boolean journal = command.path("journal").asBoolean(true);
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
            for (JsonNode header : headers) {
                record.headers().add(header.get(0).asText(), bytes(header.get(1).asText()));
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
            if (metadata.hasOffset()) {
                event.put("offset", metadata.offset());
            } else {
                event.putNull("offset");
            }
            event.put("timestamp_ms", metadata.timestamp());
            describe(event, key, value);
            event.put("header_count", headers.size());
            event.setAll(clientSettings);
            event.put("sent_ns", sentNs).put("acknowledged_ns", acknowledgedNs);
        }
    }

    private JsonNode openConsumer(JsonNode command) {
        String client = command.get("client").asText();
        String group = text(command, "group");
        Properties properties = properties(client);
        if (group != null) {
            properties.put("group.id", group);
            properties.put("group.protocol", "classic");
        }
        properties.put("enable.auto.commit", false);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", command.path("isolation").asText("read_committed"));
        properties.put("partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.RangeAssignor");
        properties.put("fetch.max.wait.ms", command.path("max_wait_ms").asInt(500));
        properties.put("max.partition.fetch.bytes", command.path("fetch_size").asInt(1048576));
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        addSettings(properties, command);
        Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        consumers.put(client, consumer);
        settings.put(client, JSON.createObjectNode().put("group", group));
        if (command.hasNonNull("assign")) {
            assign(consumer, command.get("assign"));
        } else {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, new Listener(client, group, consumer));
        }
        return null;
    }

    private static void addSettings(Properties properties, JsonNode command) {
        command.path("settings").fields()
                .forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
    }

    private static void assign(Consumer<byte[], byte[]> consumer, JsonNode places) {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        for (JsonNode place : places) {
            offsets.put(place(place), place.get(2).asLong());
        }
        consumer.assign(offsets.keySet());
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

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            rebalanced("lost", partitions);
        }

        private void rebalanced(String what, Collection<TopicPartition> partitions) {
            ObjectNode event = event("rebalances", client);
            event.put("group", group).put("event", what);
            event.put("generation", consumer.groupMetadata().generationId());
            event.put("member_id", consumer.groupMetadata().memberId());
            ArrayNode places = event.putArray("partitions");
            partitions.stream().sorted(java.util.Comparator.comparing(TopicPartition::toString))
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
        long deadline = System.nanoTime() + (long) (command.get("seconds").asDouble() * 1e9);
        int count = 0;
        while (System.nanoTime() < deadline && count < wanted) {
            try {
                var records = consumer.poll(Duration.ofMillis(50));
                if (commitEach && !records.isEmpty()) {
                    consumer.commitSync();
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    count++;
                    if (journal) {
                        consumed(client, record);
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

    private void consumed(String client, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode event = event("consumed", client);
        event.set("group", settings.get(client).get("group"));
        event.put("topic", record.topic()).put("partition", record.partition());
        event.put("offset", record.offset()).put("timestamp_ms", record.timestamp());
        describe(event, record.key(), record.value());
        event.put("header_count", record.headers().toArray().length);
    }

    private JsonNode commit(JsonNode command) {
        String client = command.get("client").asText();
        Consumer<byte[], byte[]> consumer = consumers.get(client);
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition place : consumer.assignment()) {
            offsets.put(place, new OffsetAndMetadata(consumer.position(place)));
        }
        consumer.commitSync(offsets);
        offsets.forEach((place, committed) -> {
            ObjectNode event = event("commits", client);
            event.set("group", settings.get(client).get("group"));
            event.put("topic", place.topic()).put("partition", place.partition());
            event.put("offset", committed.offset());
        });
        return null;
    }

    private JsonNode close(JsonNode command) {
        String client = command.get("client").asText();
        if (producers.containsKey(client)) {
            Producer<byte[], byte[]> producer = producers.remove(client);
            statistics(client, "producer-node-metrics", producer.metrics());
            producer.close(Duration.ofSeconds(TIMEOUT_SECONDS));
        }
        if (consumers.containsKey(client)) {
            Consumer<byte[], byte[]> consumer = consumers.remove(client);
            statistics(client, "consumer-node-metrics", consumer.metrics());
            consumer.close(Duration.ofSeconds(TIMEOUT_SECONDS));
        }
        if (admins.containsKey(client)) {
            Admin admin = admins.remove(client);
            statistics(client, "admin-client-node-metrics", admin.metrics());
            admin.close(Duration.ofSeconds(TIMEOUT_SECONDS));
        }
        return null;
    }

    /** Requests and bytes up to now, summed over the connections to all nodes. */
    private void statistics(
            String client, String group, Map<MetricName, ? extends Metric> metrics) {
        Map<String, Long> totals = new TreeMap<>();
        metrics.forEach((name, metric) -> {
            if (name.group().equals(group) && metric.metricValue() instanceof Double value) {
                totals.merge(name.name(), value.longValue(), Long::sum);
            }
        });
        ObjectNode event = event("statistics", client);
        event.put("time_us", now() / 1000);
        event.putNull("requests_by_api");
        event.put("tx", totals.getOrDefault("request-total", 0L));
        event.put("tx_bytes", totals.getOrDefault("outgoing-byte-total", 0L));
        event.put("rx", totals.getOrDefault("response-total", 0L));
        event.put("rx_bytes", totals.getOrDefault("incoming-byte-total", 0L));
    }

    private JsonNode createTopics(JsonNode command) {
        String client = command.get("client").asText();
        List<NewTopic> topics = new ArrayList<>();
        for (JsonNode topic : command.get("topics")) {
            Map<String, String> configs = new HashMap<>();
            topic.path("configs").fields().forEachRemaining(
                    entry -> configs.put(entry.getKey(), entry.getValue().asText()));
            short replication = (short) topic.path("replication").asInt(1);
            topics.add(new NewTopic(topic.get("name").asText(),
                    topic.get("partitions").asInt(), replication).configs(configs));
        }
        var answers = admin(client).createTopics(topics);
        ObjectNode ids = JSON.createObjectNode();
        answers.values().forEach((name, answer) -> {
            if (await(client, "create_topics", answer, name, null)) {
                ids.put(name, answers.topicId(name).toCompletionStage().toCompletableFuture()
                        .join().toString());
            }
        });
        return ids;
    }

    private JsonNode deleteTopics(JsonNode command) {
        String client = command.get("client").asText();
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        admin(client).deleteTopics(topics).topicNameValues()
                .forEach((name, answer) -> await(client, "delete_topics", answer, name, null));
        return null;
    }

    private JsonNode createPartitions(JsonNode command) {
        String client = command.get("client").asText();
        String topic = command.get("topic").asText();
        NewPartitions total = NewPartitions.increaseTo(command.get("partitions").asInt());
        await(client, "create_partitions",
                admin(client).createPartitions(Map.of(topic, total)).all(), topic, null);
        return null;
    }

    private JsonNode describeCluster(JsonNode command) throws Exception {
        var answer = admin(command.get("client").asText()).describeCluster();
        return JSON.createObjectNode().put("cluster_id", get(answer.clusterId()))
                .put("brokers", get(answer.nodes()).size());
    }

    private JsonNode describeTopics(JsonNode command) {
        String client = command.get("client").asText();
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        ObjectNode found = JSON.createObjectNode();
        admin(client).describeTopics(topics).topicNameValues().forEach((name, answer) -> {
            if (await(client, "describe_topics", answer, name, null)) {
                var description = answer.toCompletionStage().toCompletableFuture().join();
                found.putObject(name)
                        .put("topic_id", description.topicId().toString())
                        .put("partitions", description.partitions().size());
            }
        });
        return found;
    }

    private JsonNode describeTopicConfigs(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var answer = admin(command.get("client").asText()).describeConfigs(List.of(resource));
        ObjectNode found = JSON.createObjectNode();
        for (ConfigEntry entry : get(answer.values().get(resource)).entries()) {
            if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                found.put(entry.name(), entry.value());
            }
        }
        return found;
    }

    private JsonNode listOffsets(JsonNode command) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        boolean earliest = command.get("at").asText().equals("earliest");
        for (JsonNode place : command.get("places")) {
            wanted.put(place(place), earliest ? OffsetSpec.earliest() : OffsetSpec.latest());
        }
        ObjectNode found = JSON.createObjectNode();
        var answer = admin(command.get("client").asText()).listOffsets(wanted);
        get(answer.all()).forEach((place, known) -> found.put(place.toString(), known.offset()));
        return found;
    }

    private JsonNode listGroups(JsonNode command) throws Exception {
        ObjectNode found = JSON.createObjectNode();
        var answer = admin(command.get("client").asText()).listGroups();
        get(answer.all()).forEach(group -> found.put(group.groupId(),
                group.groupState().map(Object::toString).orElse(null)));
        return found;
    }

    private JsonNode describeGroup(JsonNode command) {
        String client = command.get("client").asText();
        String group = command.get("group").asText();
        var answer = admin(client).describeConsumerGroups(List.of(group)).describedGroups().get(group);
        ObjectNode found = JSON.createObjectNode();
        if (await(client, "describe_group", answer, null, null)) {
            var description = answer.toCompletionStage().toCompletableFuture().join();
            found.put("state", description.groupState().toString());
            found.put("assignor", description.partitionAssignor());
            ArrayNode members = found.putArray("members");
            description.members().stream().map(member -> member.clientId()).sorted()
                    .forEach(members::add);
        }
        return found;
    }

    private JsonNode groupOffsets(JsonNode command) throws Exception {
        var answer = admin(command.get("client").asText())
                .listConsumerGroupOffsets(command.get("group").asText());
        Map<String, Long> found = new TreeMap<>();
        get(answer.partitionsToOffsetAndMetadata()).forEach((place, committed) ->
                found.put(place.toString(), committed == null ? -1 : committed.offset()));
        return JSON.valueToTree(found);
    }

    private JsonNode deleteRecords(JsonNode command) {
        String client = command.get("client").asText();
        TopicPartition place = place(command.get("place"));
        var before = RecordsToDelete.beforeOffset(command.get("place").get(2).asLong());
        var answer = admin(client).deleteRecords(Map.of(place, before)).lowWatermarks().get(place);
        await(client, "delete_records", answer, place.topic(), place.partition());
        return null;
    }

    private JsonNode deleteGroup(JsonNode command) {
        String client = command.get("client").asText();
        String group = command.get("group").asText();
        await(client, "delete_group",
                admin(client).deleteConsumerGroups(List.of(group)).all(), null, null);
        return null;
    }

    private JsonNode listTopics(JsonNode command) throws Exception {
        ArrayNode names = JSON.createArrayNode();
        for (int i = command.path("repeat").asInt(1); i > 1; i--) {
            get(admin(command.get("client").asText()).listTopics().names());
        }
        get(admin(command.get("client").asText()).listTopics().names()).stream().sorted()
                .forEach(names::add);
        return names;
    }

    private Admin admin(String client) {
        return admins.computeIfAbsent(client, name -> Admin.create(properties(name)));
    }

    private Properties properties(String client) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", client);
        return properties;
    }

    private boolean await(
            String client, String operation, Future<?> answer, String topic, Integer partition) {
        try {
            answer.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
            return true;
        } catch (Exception failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            failed(client, operation, cause, topic, partition);
            return false;
        }
    }

    private static <T> T get(Future<T> answer) throws Exception {
        return answer.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    private void failed(
            String client, String operation, Throwable failure, String topic, Integer partition) {
        Errors known = failure instanceof OffsetOutOfRangeException
                ? Errors.OFFSET_OUT_OF_RANGE : Errors.forException(failure);
        boolean isKnown = known != Errors.UNKNOWN_SERVER_ERROR;
        ObjectNode event = event("errors", client);
        event.put("operation", operation);
        event.put("code", isKnown ? Short.valueOf(known.code()) : null);
        event.put("name", isKnown ? known.name() : failure.getClass().getSimpleName());
        event.put("topic", topic);
        event.put("partition", partition);
        event.put("time_ns", now());
    }

    private ObjectNode event(String kind, String client) {
        return events.addObject().put("kind", kind).put("session", client);
    }

    private static void describe(ObjectNode event, byte[] key, byte[] value) {
        event.put("key_size", key == null ? -1 : key.length);
        event.put("value_size", value == null ? -1 : value.length);
        event.put("key_sha256", sha256(key));
        event.put("value_sha256", sha256(value));
    }

    private static TopicPartition place(JsonNode place) {
        return new TopicPartition(place.get(0).asText(), place.get(1).asInt());
    }

    private static String text(JsonNode node, String name) {
        return node.hasNonNull(name) ? node.get(name).asText() : null;
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String sha256(byte[] data) {
        if (data == null) {
            return null;
        }
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
        } catch (java.security.NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static long now() {
        Instant instant = Instant.now();
        return instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
    }
}
