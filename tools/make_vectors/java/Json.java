import java.util.Collection;
import java.util.Map;

/** Maps, lists, text and numbers as JSON. */
final class Json {
    private Json() {}

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder("hex:");
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    static void append(StringBuilder text, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                text.append(separator);
                append(text, entry.getKey());
                text.append(':');
                append(text, entry.getValue());
                separator = ",";
            }
            text.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String separator = "[";
            for (Object item : (Collection<?>) value) {
                text.append(separator);
                append(text, item);
                separator = ",";
            }
            text.append(separator.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            text.append('"');
            for (char letter : ((String) value).toCharArray()) {
                if (letter < ' ' || letter == '"' || letter == '\\') {
                    text.append(String.format("\\u%04x", (int) letter));
                } else {
                    text.append(letter);
                }
            }
            text.append('"');
        } else {
            text.append(value);
        }
    }
}
