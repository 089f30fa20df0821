import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/**
 * What operators do to a cluster, one command each. Failures are events, not the agent's: many of
 * these are asked of clusters that cannot do them.
 */
final class ClusterCommands {
    private final CommandLoop loop;
    private final Admins admins;

    /** Something to ask an admin client, that ends in one future. */
    private interface Question {
        Future<?> ask(Admin admin, JsonNode command) throws Exception;
    }

    ClusterCommands(CommandLoop loop) {
        this.loop = loop;
        this.admins = Admins.of(loop);
        addConfigs();
        addPartitions();
        addGroups();
        addTransactions();
        addQuorum();
    }

    private void addConfigs() {
        add("alter_config", (admin, command) -> admin.incrementalAlterConfigs(
                Map.of(resource(command), alterations(command))).all());
        add("describe_config", (admin, command) ->
                admin.describeConfigs(List.of(resource(command))).all());
        add("list_config_resources", (admin, command) -> admin.listConfigResources().all());
        add("describe_features", (admin, command) -> admin.describeFeatures().featureMetadata());
        add("update_feature", (admin, command) -> admin.updateFeatures(
                Map.of(command.get("feature").asText(), new FeatureUpdate(
                        (short) command.get("level").asInt(), FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions().validateOnly(true)).all());
    }

    private void addPartitions() {
        add("reassign", (admin, command) -> admin.alterPartitionReassignments(
                Map.of(place(command), reassignment(command))).all());
        add("list_reassignments", (admin, command) ->
                admin.listPartitionReassignments().reassignments());
        add("elect_leaders", (admin, command) -> admin.electLeaders(
                ElectionType.valueOf(command.get("type").asText()),
                command.has("place") ? Set.of(place(command)) : null).all());
        add("describe_log_dirs", (admin, command) ->
                admin.describeLogDirs(nodes(command)).allDescriptions());
        add("move_replica", (admin, command) -> admin.alterReplicaLogDirs(Map.of(
                new TopicPartitionReplica(place(command).topic(), place(command).partition(),
                        command.get("node").asInt()),
                command.get("directory").asText())).all());
        add("list_offsets_at", (admin, command) -> admin.listOffsets(Map.of(
                place(command), spec(command.get("at").asText()))).all());
        add("describe_producers", (admin, command) ->
                admin.describeProducers(List.of(place(command))).all());
    }

    private void addGroups() {
        add("delete_group_offsets", (admin, command) -> admin.deleteConsumerGroupOffsets(
                group(command), Set.of(place(command))).all());
        add("alter_group_offsets", (admin, command) -> admin.alterConsumerGroupOffsets(
                group(command), Map.of(place(command),
                        new OffsetAndMetadata(command.get("offset").asLong()))).all());
        add("group_offsets_of", (admin, command) -> {
            Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
            command.get("groups").forEach(name ->
                    specs.put(name.asText(), new ListConsumerGroupOffsetsSpec()));
            return admin.listConsumerGroupOffsets(specs).all();
        });
        add("remove_member", (admin, command) -> admin.removeMembersFromConsumerGroup(
                group(command), new RemoveMembersFromConsumerGroupOptions(
                        Set.of(new MemberToRemove(command.get("instance").asText())))).all());
        add("describe_classic_group", (admin, command) ->
                admin.describeClassicGroups(List.of(group(command))).all());
        add("describe_share_group", (admin, command) ->
                admin.describeShareGroups(List.of(group(command))).all());
        add("describe_streams_group", (admin, command) ->
                admin.describeStreamsGroups(List.of(group(command))).all());
        add("share_group_offsets", (admin, command) -> admin.listShareGroupOffsets(Map.of(
                group(command),
                new org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec())).all());
        add("alter_share_group_offsets", (admin, command) -> admin.alterShareGroupOffsets(
                group(command), Map.of(place(command), command.get("offset").asLong())).all());
        add("delete_share_group_offsets", (admin, command) -> admin.deleteShareGroupOffsets(
                group(command), Set.of(command.get("topic").asText())).all());
        add("delete_share_group", (admin, command) ->
                admin.deleteShareGroups(List.of(group(command))).all());
    }

    private void addTransactions() {
        add("list_transactions", (admin, command) -> admin.listTransactions().all());
        add("describe_transaction", (admin, command) ->
                admin.describeTransactions(List.of(command.get("id").asText())).all());
        add("fence_producer", (admin, command) ->
                admin.fenceProducers(List.of(command.get("id").asText())).all());
        add("terminate_transaction", (admin, command) ->
                admin.forceTerminateTransaction(command.get("id").asText()).result());
    }

    private void addQuorum() {
        loop.operations.put("describe_quorum", command -> {
            var answer = admins.of(command).describeMetadataQuorum().quorumInfo();
            String client = command.get("client").asText();
            return loop.await(client, "describe_quorum", answer, null, null)
                    ? CommandLoop.JSON.createObjectNode().put("leader", answer.get().leaderId())
                    : null;
        });
        add("unregister_broker", (admin, command) ->
                admin.unregisterBroker(command.get("node").asInt()).all());
        add("remove_voter", (admin, command) -> admin.removeRaftVoter(
                command.get("node").asInt(),
                Uuid.fromString(command.get("directory").asText())).all());
        add("client_instance_id", (admin, command) ->
                java.util.concurrent.CompletableFuture.completedFuture(
                        admin.clientInstanceId(java.time.Duration.ofSeconds(5))));
    }

    private void add(String name, Question question) {
        loop.operations.put(name, command -> {
            Future<?> answer = question.ask(admins.of(command), command);
            String topic = command.has("place") ? place(command).topic() : null;
            loop.await(command.get("client").asText(), name, answer, topic, null);
            return null;
        });
    }

    private static ConfigResource resource(JsonNode command) {
        var type = ConfigResource.Type.valueOf(command.get("type").asText());
        return new ConfigResource(type, command.get("name").asText());
    }

    private static List<AlterConfigOp> alterations(JsonNode command) {
        List<AlterConfigOp> changes = new ArrayList<>();
        command.get("changes").forEach(change -> changes.add(new AlterConfigOp(
                new ConfigEntry(change.get(1).asText(), change.path(2).asText()),
                AlterConfigOp.OpType.valueOf(change.get(0).asText()))));
        return changes;
    }

    private static Optional<NewPartitionReassignment> reassignment(JsonNode command) {
        if (!command.hasNonNull("replicas")) {
            return Optional.empty();
        }
        return Optional.of(new NewPartitionReassignment(numbers(command.get("replicas"))));
    }

    private static List<Integer> nodes(JsonNode command) {
        return numbers(command.get("nodes"));
    }

    private static List<Integer> numbers(JsonNode list) {
        List<Integer> numbers = new ArrayList<>();
        list.forEach(number -> numbers.add(number.asInt()));
        return numbers;
    }

    private static OffsetSpec spec(String at) {
        return switch (at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            case "earliest_local" -> OffsetSpec.earliestLocal();
            case "latest_tiered" -> OffsetSpec.latestTiered();
            default -> OffsetSpec.forTimestamp(Long.parseLong(at));
        };
    }

    private static String group(JsonNode command) {
        return command.get("group").asText();
    }

    private static TopicPartition place(JsonNode command) {
        return CommandLoop.place(command.get("place"));
    }
}
