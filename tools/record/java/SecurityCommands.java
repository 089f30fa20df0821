import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeUserScramCredentialsResult;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** Access control lists, quotas, SCRAM users and delegation tokens. */
final class SecurityCommands {
    private final CommandLoop loop;
    private final Admins admins;
    private final Map<String, DelegationToken> tokens = new HashMap<>();

    SecurityCommands(CommandLoop loop) {
        this.loop = loop;
        this.admins = Admins.of(loop);
        loop.operations.put("create_acls", this::createAcls);
        loop.operations.put("describe_acls", this::describeAcls);
        loop.operations.put("delete_acls", this::deleteAcls);
        loop.operations.put("alter_quota", this::alterQuota);
        loop.operations.put("describe_quotas", this::describeQuotas);
        loop.operations.put("set_password", this::setPassword);
        loop.operations.put("delete_user", this::deleteUser);
        loop.operations.put("describe_users", this::describeUsers);
        loop.operations.put("create_token", this::createToken);
        loop.operations.put("renew_token", this::renewToken);
        loop.operations.put("describe_tokens", this::describeTokens);
        loop.operations.put("expire_token", this::expireToken);
    }

    private static AclBinding binding(String topic) {
        return new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, topic, PatternType.PREFIXED),
                new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
    }

    private JsonNode createAcls(JsonNode command) {
        AclBinding wanted = binding(command.get("topic").asText());
        return done(command, admins.of(command).createAcls(List.of(wanted)).all());
    }

    private JsonNode describeAcls(JsonNode command) {
        return done(command, admins.of(command).describeAcls(AclBindingFilter.ANY).values());
    }

    private JsonNode deleteAcls(JsonNode command) {
        AclBindingFilter filter = binding(command.get("topic").asText()).toFilter();
        return done(command, admins.of(command).deleteAcls(List.of(filter)).all());
    }

    private JsonNode alterQuota(JsonNode command) {
        ClientQuotaEntity entity = new ClientQuotaEntity(
                Map.of(ClientQuotaEntity.CLIENT_ID, command.get("client_id").asText()));
        Double limit = command.hasNonNull("limit") ? command.get("limit").asDouble() : null;
        var change = new ClientQuotaAlteration.Op(command.get("quota").asText(), limit);
        var alteration = new ClientQuotaAlteration(entity, List.of(change));
        return done(command, admins.of(command).alterClientQuotas(List.of(alteration)).all());
    }

    private JsonNode describeQuotas(JsonNode command) {
        return done(command,
                admins.of(command).describeClientQuotas(ClientQuotaFilter.all()).entities());
    }

    private JsonNode setPassword(JsonNode command) {
        var mechanism = ScramMechanism.fromMechanismName(command.get("mechanism").asText());
        var change = new UserScramCredentialUpsertion(command.get("user").asText(),
                new ScramCredentialInfo(mechanism, 4096), command.get("password").asText());
        return done(command, admins.of(command).alterUserScramCredentials(List.of(change)).all());
    }

    private JsonNode deleteUser(JsonNode command) {
        var mechanism = ScramMechanism.fromMechanismName(command.get("mechanism").asText());
        var change = new UserScramCredentialDeletion(command.get("user").asText(), mechanism);
        return done(command, admins.of(command).alterUserScramCredentials(List.of(change)).all());
    }

    private JsonNode describeUsers(JsonNode command) {
        DescribeUserScramCredentialsResult answer =
                admins.of(command).describeUserScramCredentials();
        return done(command, answer.all());
    }

    private JsonNode createToken(JsonNode command) throws Exception {
        var options = new CreateDelegationTokenOptions().maxLifetimeMs(600_000);
        var answer = admins.of(command).createDelegationToken(options).delegationToken();
        String client = command.get("client").asText();
        if (!loop.await(client, "create_token", answer, null, null)) {
            return null;
        }
        DelegationToken token = CommandLoop.get(answer);
        tokens.put(client, token);
        ObjectNode result = CommandLoop.JSON.createObjectNode();
        result.put("token_id", token.tokenInfo().tokenId());
        return result.put("hmac", token.hmacAsBase64String());
    }

    private JsonNode renewToken(JsonNode command) {
        byte[] hmac = tokens.get(command.get("client").asText()).hmac();
        return done(command, admins.of(command).renewDelegationToken(hmac).expiryTimestamp());
    }

    private JsonNode describeTokens(JsonNode command) {
        return done(command, admins.of(command).describeDelegationToken().delegationTokens());
    }

    private JsonNode expireToken(JsonNode command) {
        byte[] hmac = tokens.get(command.get("client").asText()).hmac();
        return done(command, admins.of(command).expireDelegationToken(hmac).expiryTimestamp());
    }

    private JsonNode done(JsonNode command, org.apache.kafka.common.KafkaFuture<?> answer) {
        String operation = command.get("op").asText();
        String client = command.get("client").asText();
        if (!loop.await(client, operation, answer, null, null)) {
            return null;
        }
        Object value = answer.toCompletionStage().toCompletableFuture().join();
        int count = value instanceof Collection<?> many ? many.size() : 1;
        return CommandLoop.JSON.createObjectNode().put("count", count);
    }
}
