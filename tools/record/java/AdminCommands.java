import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What people ask Kafka about topics and groups every day, by a 4.x admin client. */
final class AdminCommands {
    private final CommandLoop loop;
    private final Admins admins;

    AdminCommands(CommandLoop loop) {
        this.loop = loop;
        this.admins = Admins.of(loop);
        loop.operations.put("create_topics", this::createTopics);
        loop.operations.put("delete_topics", this::deleteTopics);
        loop.operations.put("create_partitions", this::createPartitions);
        loop.operations.put("describe_cluster", this::describeCluster);
        loop.operations.put("describe_topics", this::describeTopics);
        loop.operations.put("describe_topic_configs", this::describeTopicConfigs);
        loop.operations.put("list_offsets", this::listOffsets);
        loop.operations.put("list_groups", this::listGroups);
        loop.operations.put("describe_group", this::describeGroup);
        loop.operations.put("group_offsets", this::groupOffsets);
        loop.operations.put("delete_records", this::deleteRecords);
        loop.operations.put("delete_group", this::deleteGroup);
        loop.operations.put("list_topics", this::listTopics);
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
        var answers = admins.of(command).createTopics(topics);
        ObjectNode ids = CommandLoop.JSON.createObjectNode();
        answers.values().forEach((name, answer) -> {
            if (loop.await(client, "create_topics", answer, name, null)) {
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
        admins.of(command).deleteTopics(topics).topicNameValues()
                .forEach((name, answer) -> loop.await(client, "delete_topics", answer, name, null));
        return null;
    }

    private JsonNode createPartitions(JsonNode command) {
        String client = command.get("client").asText();
        String topic = command.get("topic").asText();
        NewPartitions total = NewPartitions.increaseTo(command.get("partitions").asInt());
        loop.await(client, "create_partitions",
                admins.of(command).createPartitions(Map.of(topic, total)).all(), topic, null);
        return null;
    }

    private JsonNode describeCluster(JsonNode command) throws Exception {
        var answer = admins.of(command).describeCluster();
        return CommandLoop.JSON.createObjectNode().put("cluster_id", CommandLoop.get(answer.clusterId()))
                .put("brokers", CommandLoop.get(answer.nodes()).size());
    }

    private JsonNode describeTopics(JsonNode command) {
        String client = command.get("client").asText();
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        ObjectNode found = CommandLoop.JSON.createObjectNode();
        admins.of(command).describeTopics(topics).topicNameValues().forEach((name, answer) -> {
            if (loop.await(client, "describe_topics", answer, name, null)) {
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
        var answer = admins.of(command).describeConfigs(List.of(resource));
        ObjectNode found = CommandLoop.JSON.createObjectNode();
        for (ConfigEntry entry : CommandLoop.get(answer.values().get(resource)).entries()) {
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
            wanted.put(CommandLoop.place(place), earliest ? OffsetSpec.earliest() : OffsetSpec.latest());
        }
        ObjectNode found = CommandLoop.JSON.createObjectNode();
        var answer = admins.of(command).listOffsets(wanted);
        CommandLoop.get(answer.all()).forEach((place, known) -> found.put(place.toString(), known.offset()));
        return found;
    }

    private JsonNode listGroups(JsonNode command) throws Exception {
        ObjectNode found = CommandLoop.JSON.createObjectNode();
        var answer = admins.of(command).listGroups();
        CommandLoop.get(answer.all()).forEach(group -> found.put(group.groupId(),
                group.groupState().map(Object::toString).orElse(null)));
        return found;
    }

    private JsonNode describeGroup(JsonNode command) {
        String client = command.get("client").asText();
        String group = command.get("group").asText();
        var answer = admins.of(command).describeConsumerGroups(List.of(group)).describedGroups().get(group);
        ObjectNode found = CommandLoop.JSON.createObjectNode();
        if (loop.await(client, "describe_group", answer, null, null)) {
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
        var answer = admins.of(command)
                .listConsumerGroupOffsets(command.get("group").asText());
        Map<String, Long> found = new TreeMap<>();
        CommandLoop.get(answer.partitionsToOffsetAndMetadata()).forEach((place, committed) ->
                found.put(place.toString(), committed == null ? -1 : committed.offset()));
        return CommandLoop.JSON.valueToTree(found);
    }

    private JsonNode deleteRecords(JsonNode command) {
        String client = command.get("client").asText();
        TopicPartition place = CommandLoop.place(command.get("place"));
        var before = RecordsToDelete.beforeOffset(command.get("place").get(2).asLong());
        var answer = admins.of(command).deleteRecords(Map.of(place, before)).lowWatermarks().get(place);
        loop.await(client, "delete_records", answer, place.topic(), place.partition());
        return null;
    }

    private JsonNode deleteGroup(JsonNode command) {
        String client = command.get("client").asText();
        String group = command.get("group").asText();
        loop.await(client, "delete_group",
                admins.of(command).deleteConsumerGroups(List.of(group)).all(), null, null);
        return null;
    }

    private JsonNode listTopics(JsonNode command) throws Exception {
        ArrayNode names = CommandLoop.JSON.createArrayNode();
        for (int i = command.path("repeat").asInt(1); i > 1; i--) {
            CommandLoop.get(admins.of(command).listTopics().names());
        }
        CommandLoop.get(admins.of(command).listTopics().names()).stream().sorted()
                .forEach(names::add);
        return names;
    }
}
