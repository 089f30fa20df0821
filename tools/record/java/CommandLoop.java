import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;

/**
 * What the Java agents share. Commands, replies and events are those of clients/agent.py: one JSON
 * line each way, a command's name is the operation that obeys it.
 */
abstract class CommandLoop {
    static final long TIMEOUT_SECONDS = 20;
    static final ObjectMapper JSON = new ObjectMapper();

    final Map<String, Operation> operations = new HashMap<>();
    private final String bootstrap;
    private ArrayNode events = JSON.createArrayNode();

    CommandLoop(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** A command's work: its arguments in, its result (or null) out. */
    interface Operation {
        JsonNode run(JsonNode command) throws Exception;
    }

    void serve() throws IOException {
        PrintStream replies = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err); // a library that prints must not speak in the agent's name
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            replies.println(obey(JSON.readTree(line)));
        }
        System.exit(0);
    }

    private JsonNode obey(JsonNode command) {
        events = JSON.createArrayNode();
        ObjectNode reply = JSON.createObjectNode();
        reply.put("start_ns", now());
        reply.putNull("result");
        reply.putNull("error");
        try {
            reply.set("result", operations.get(command.get("op").asText()).run(command));
        } catch (Exception failure) {
            reply.put("error", failure.toString());
            failure.printStackTrace();
        }
        reply.put("end_ns", now());
        reply.set("events", events);
        return reply;
    }

    /** A client's properties: where, who, and the command's own `settings`. */
    Properties properties(JsonNode command) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", command.get("client").asText());
        for (Iterator<Map.Entry<String, JsonNode>> all = command.path("settings").fields();
                all.hasNext(); ) {
            Map.Entry<String, JsonNode> entry = all.next();
            properties.put(entry.getKey(), entry.getValue().asText());
        }
        return properties;
    }

    boolean await(
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

    static <T> T get(Future<T> answer) throws Exception {
        return answer.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    void failed(
            String client, String operation, Throwable failure, String topic, Integer partition) {
        Errors known = failure instanceof OffsetOutOfRangeException
                ? Errors.OFFSET_OUT_OF_RANGE : Errors.forException(failure);
        boolean isKnown = known != Errors.forCode((short) -1);
        ObjectNode event = event("errors", client);
        event.put("operation", operation);
        event.put("code", isKnown ? Short.valueOf(known.code()) : null);
        event.put("name", isKnown ? known.name() : failure.getClass().getSimpleName());
        event.put("topic", topic);
        event.put("partition", partition);
        event.put("time_ns", now());
    }

    ObjectNode event(String kind, String client) {
        return events.addObject().put("kind", kind).put("session", client);
    }

    static void describe(ObjectNode event, byte[] key, byte[] value) {
        event.put("key_size", key == null ? -1 : key.length);
        event.put("value_size", value == null ? -1 : value.length);
        event.put("key_sha256", sha256(key));
        event.put("value_sha256", sha256(value));
    }

    static TopicPartition place(JsonNode place) {
        return new TopicPartition(place.get(0).asText(), place.get(1).asInt());
    }

    static String text(JsonNode node, String name) {
        return node.hasNonNull(name) ? node.get(name).asText() : null;
    }

    static byte[] bytes(String text) {
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

    static long now() {
        Instant instant = Instant.now();
        return instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
    }
}
