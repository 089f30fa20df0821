import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/** Admin clients by their client ids, made when they are first asked; `close` closes them. */
final class Admins {
    private static Admins shared;
    private final CommandLoop loop;
    private final Map<String, Admin> admins = new HashMap<>();

    /** The clients that all commands of the process share. */
    static Admins of(CommandLoop loop) {
        shared = shared == null ? new Admins(loop) : shared;
        return shared;
    }

    private Admins(CommandLoop loop) {
        this.loop = loop;
        CommandLoop.Operation others = loop.operations.get("close");
        loop.operations.put("close", command -> {
            close(command.get("client").asText());
            return others.run(command);
        });
    }

    Admin of(JsonNode command) {
        return admins.computeIfAbsent(
                command.get("client").asText(), name -> Admin.create(loop.properties(command)));
    }

    private void close(String client) {
        Admin admin = admins.remove(client);
        if (admin != null) {
            Statistics.add(
                    loop.event("statistics", client), "admin-client-node-metrics", admin.metrics());
            admin.close(Duration.ofSeconds(CommandLoop.TIMEOUT_SECONDS));
        }
    }
}
