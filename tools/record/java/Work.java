import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients that work in threads of their own until they are told to stop: `start_writing`,
 * `start_reading`, and `stop`, whose result counts records and errors by name.
 */
final class Work {
    private static final long STOP_MS = 15_000;
    private final CommandLoop loop;
    private final Map<String, Job> jobs = new HashMap<>();

    Work(CommandLoop loop) {
        this.loop = loop;
        loop.operations.put("start_writing", command -> begin(command, new Writing(command)));
        loop.operations.put("start_reading", command -> begin(command, new Reading(command)));
        loop.operations.put("stop", this::stop);
    }

    JsonNode begin(JsonNode command, Job job) {
        jobs.put(command.get("client").asText(), job);
        job.setDaemon(true);
        job.start();
        return null;
    }

    private JsonNode stop(JsonNode command) throws Exception {
        Job job = jobs.remove(command.get("client").asText());
        job.over = true;
        job.join(STOP_MS);
        if (job.isAlive()) {
            job.interrupt();
            job.join(STOP_MS);
        }
        ObjectNode counts = CommandLoop.JSON.createObjectNode();
        synchronized (job.counts) {
            job.counts.forEach(counts::put);
        }
        return counts;
    }

    /** A thread that does one client's work again and again. */
    abstract static class Job extends Thread {
        final JsonNode command;
        final Map<String, Integer> counts = new TreeMap<>();
        volatile boolean over;

        Job(JsonNode command) {
            this.command = command;
        }

        abstract void work() throws Exception;

        abstract void close();

        void failed() {}

        @Override
        public void run() {
            while (!over) {
                try {
                    work();
                } catch (InterruptedException end) {
                    break;
                } catch (Exception failure) {
                    count(failure.getClass().getSimpleName());
                    failed();
                    pause(command.path("after_failure_ms").asLong(100));
                }
            }
            try {
                close();
            } catch (Exception failure) {
                count(failure.getClass().getSimpleName());
            }
        }

        void count(String what) {
            count(what, 1);
        }

        void count(String what, int number) {
            synchronized (counts) {
                counts.merge(what, number, Integer::sum);
            }
        }

        void pause(long ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException end) {
                over = true;
            }
        }
    }

    /** Produces: `every_ms`, `size`, `partition` or `hot` (of ten records to partition 0). */
    private final class Writing extends Job {
        private final Random random = new Random(1);
        private final long everyMs;
        private final int burst;
        private KafkaProducer<byte[], byte[]> producer;
        private int number;
        private boolean inTransaction;

        Writing(JsonNode command) {
            super(command);
            everyMs = command.path("every_ms").asLong(20);
            burst = command.path("burst").asInt(1);
        }

        @Override
        void work() throws Exception {
            if (producer == null) {
                open();
            }
            int transaction = command.path("transaction").asInt(0);
            if (transaction > 0 && !inTransaction) {
                producer.beginTransaction();
                inTransaction = true;
            }
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (int i = 0; i < burst; i++) {
                answers.add(send());
            }
            if (command.path("each").asBoolean(false)) {
                for (Future<RecordMetadata> answer : answers) {
                    answer.get(20, TimeUnit.SECONDS);
                }
            }
            if (inTransaction && number % transaction == 0) {
                end();
            }
            if (command.path("reopens").asBoolean(false)) {
                close();
            }
            if (number >= command.path("count").asInt(Integer.MAX_VALUE)) {
                over = true;
            }
            Thread.sleep(everyMs);
        }

        private Future<RecordMetadata> send() {
            var topics = command.get("topics");
            String topic = topics.get(number % topics.size()).asText();
            byte[] value = new byte[command.path("size").asInt(100)];
            if (command.path("compressible").asBoolean(true)) {
                for (int i = 0; i < value.length; i++) {
                    value[i] = (byte) ('a' + (i * 7 + number) % 23);
                }
            } else {
                random.nextBytes(value);
            }
            Integer partition = command.hasNonNull("partition") ? command.get("partition").asInt() : null;
            int hot = command.path("hot").asInt(0);
            if (hot > 0 && number % 10 < hot) {
                partition = 0;
            }
            byte[] key = CommandLoop.bytes("key-" + number % command.path("keys").asInt(100));
            number++;
            return producer.send(new ProducerRecord<>(topic, partition, key, value),
                    (metadata, failure) ->
                            count(failure == null ? "written" : failure.getClass().getSimpleName()));
        }

        @Override
        void failed() {
            if (command.path("reopens_after_failure").asBoolean(false)) {
                inTransaction = false;
                close();
            }
        }

        private void end() {
            inTransaction = false;
            if (command.path("aborts").asBoolean(false)) {
                producer.abortTransaction();
            } else {
                producer.commitTransaction();
            }
        }

        private void open() {
            Properties properties = loop.properties(command);
            properties.putIfAbsent("linger.ms", 5);
            properties.putIfAbsent("max.block.ms", 5000);
            properties.put("key.serializer", ByteArraySerializer.class.getName());
            properties.put("value.serializer", ByteArraySerializer.class.getName());
            producer = new KafkaProducer<>(properties);
            if (properties.containsKey("transactional.id")) {
                try {
                    producer.initTransactions();
                } catch (RuntimeException failure) {
                    close();
                    throw failure;
                }
            }
        }

        @Override
        void close() {
            if (producer != null) {
                producer.close(Duration.ofSeconds(command.path("close_seconds").asInt(3)));
                producer = null;
            }
        }
    }

    /** Consumes: `process_ms` after each poll that gave records, `commits`, `reopen_ms`. */
    private final class Reading extends Job implements ConsumerRebalanceListener {
        private KafkaConsumer<byte[], byte[]> consumer;
        private long openedNs;
        private boolean hasSkipped;

        Reading(JsonNode command) {
            super(command);
        }

        @Override
        void work() throws Exception {
            if (consumer == null) {
                open();
            }
            ConsumerRecords<byte[], byte[]> records =
                    consumer.poll(Duration.ofMillis(command.path("poll_ms").asLong(100)));
            count("polls");
            count("read", records.count());
            if (!records.isEmpty()) {
                Thread.sleep(command.path("process_ms").asLong(0));
                if (command.path("commits").asBoolean(true) && command.hasNonNull("group")) {
                    consumer.commitSync();
                }
                if (command.path("skips").asBoolean(false) && !hasSkipped) {
                    hasSkipped = true;
                    consumer.seekToEnd(consumer.assignment());
                    consumer.assignment().forEach(consumer::position);
                    consumer.commitSync();
                }
            }
            Thread.sleep(command.path("every_ms").asLong(0));
            long reopenMs = command.path("reopen_ms").asLong(0);
            if (reopenMs > 0 && System.nanoTime() - openedNs > reopenMs * 1_000_000) {
                close();
            }
        }

        private void open() {
            Properties properties = loop.properties(command);
            if (command.hasNonNull("group")) {
                properties.put("group.id", command.get("group").asText());
            }
            properties.putIfAbsent("enable.auto.commit", false);
            properties.putIfAbsent("auto.offset.reset", "earliest");
            properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
            properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
            consumer = new KafkaConsumer<>(properties);
            openedNs = System.nanoTime();
            if (command.hasNonNull("assign")) {
                List<TopicPartition> places = new ArrayList<>();
                command.get("assign").forEach(place -> places.add(CommandLoop.place(place)));
                consumer.assign(places);
                if (command.hasNonNull("seek")) {
                    places.forEach(place -> consumer.seek(place, command.get("seek").asLong()));
                }
                return;
            }
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        }

        @Override
        void close() {
            if (consumer != null) {
                consumer.close(Duration.ofSeconds(command.path("close_seconds").asInt(3)));
                consumer = null;
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            count("assigned");
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            pause(command.path("revoke_ms").asLong(0));
        }
    }
}
