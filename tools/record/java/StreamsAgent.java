import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/** The agent of Kafka Streams: counts records by key, from one topic into another. */
public final class StreamsAgent extends CommandLoop {
    private final Map<String, KafkaStreams> running = new HashMap<>();

    private StreamsAgent(String bootstrap) {
        super(bootstrap);
        operations.put("versions", command ->
                JSON.createObjectNode().put("kafka-streams", AppInfoParser.getVersion()));
        operations.put("open_streams", this::open);
        operations.put("close", this::close);
    }

    public static void main(String[] arguments) throws Exception {
        new StreamsAgent(arguments[0]).serve();
    }

    private JsonNode open(JsonNode command) throws Exception {
        Properties properties = properties(command);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, command.get("group").asText());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> source = builder.stream(command.get("from").asText());
        source.groupByKey().count().toStream().mapValues(String::valueOf)
                .to(command.get("to").asText());
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.start();
        running.put(command.get("client").asText(), streams);
        Thread.sleep((long) (command.get("seconds").asDouble() * 1000));
        return JSON.createObjectNode().put("state", streams.state().toString());
    }

    private JsonNode close(JsonNode command) {
        KafkaStreams streams = running.remove(command.get("client").asText());
        if (streams != null) {
            streams.close(Duration.ofSeconds(TIMEOUT_SECONDS));
        }
        return null;
    }
}
