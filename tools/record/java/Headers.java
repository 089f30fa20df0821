import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Record headers, which clients know since 0.11. */
final class Headers {
    private static final String TYPE = "org.apache.kafka.common.header.Headers";

    private Headers() {}

    static void add(ProducerRecord<byte[], byte[]> record, String name, byte[] value) {
        Object headers = Newer.callOr(record, ProducerRecord.class, "headers", null);
        Newer.call(headers, Newer.type(TYPE), "add", new Class<?>[] {String.class, byte[].class}, name, value);
    }

    static int count(ConsumerRecord<byte[], byte[]> record) {
        Object headers = Newer.callOr(record, ConsumerRecord.class, "headers", null);
        return headers == null ? 0 : ((Object[]) Newer.callOr(headers, Newer.type(TYPE), "toArray", null)).length;
    }
}
