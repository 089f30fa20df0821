import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;

/** A client's own counters, summed over its connections to all nodes. */
final class Statistics {
    private Statistics() {}

    /** Requests and bytes up to now, out of a client's metrics, into an event. */
    static void add(
            ObjectNode event, String group, Map<MetricName, ? extends Metric> metrics) {
        Map<String, Long> totals = new TreeMap<>();
        metrics.forEach((name, metric) -> {
            Object value = Newer.callOr(metric, Metric.class, "metricValue", null);
            if (name.group().equals(group) && value instanceof Double) {
                totals.merge(name.name(), ((Double) value).longValue(), Long::sum);
            }
        });
        event.put("time_us", CommandLoop.now() / 1000);
        event.putNull("requests_by_api");
        event.put("tx", totals.getOrDefault("request-total", 0L));
        event.put("tx_bytes", totals.getOrDefault("outgoing-byte-total", 0L));
        event.put("rx", totals.getOrDefault("response-total", 0L));
        event.put("rx_bytes", totals.getOrDefault("incoming-byte-total", 0L));
    }
}
