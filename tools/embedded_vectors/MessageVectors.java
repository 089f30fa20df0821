// Fills Kafka's generated messages with random values and prints them: a JSON object a line with the
// class, its key, the version, the bytes in hex, and the values as Kafka's own JSON converter has them.
//
//     java MessageVectors.java release samples package...

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public final class MessageVectors {
    private static final String CONVERTER = "JsonConverter";
    private static final Pattern MESSAGE = Pattern.compile("(PrincipalData|Key|Marker|Message|Record|Snapshot|Value)\\.class$");
    private static final Set<String> UINT16 = Set.of("port", "snapshotEpoch");
    private static final Pattern NOT_IN_VERSION = Pattern.compile("non-default (\\w+) at version");
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Random random = new Random(4);
    private final Set<String> absent = new HashSet<>();

    public static void main(String[] arguments) throws Exception {
        MessageVectors vectors = new MessageVectors();
        for (String name : messages(Set.of(arguments).stream().toList())) {
            Class<?> type = Class.forName(name);
            Message any = (Message) type.getConstructor().newInstance();
            int samples = Integer.parseInt(arguments[1]);
            if (any.highestSupportedVersion() == Short.MAX_VALUE) continue; // a struct of another message
            for (short version = any.lowestSupportedVersion(); version <= any.highestSupportedVersion(); version++) {
                for (int sample = 0; sample < samples; sample++) {
                    vectors.print(arguments[0], type, version);
                }
            }
        }
    }

    private static Set<String> messages(List<String> packages) throws Exception {
        Set<String> found = new TreeSet<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!path.endsWith(".jar")) continue;
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName().replace('/', '.')).forEach(name -> {
                    if (!MESSAGE.matcher(name).find()) return;
                    String message = name.replaceFirst("\\.class$", "");
                    String parent = message.substring(0, message.lastIndexOf('.'));
                    if (packages.contains(parent) || packages.contains(message)) found.add(message);
                });
            }
        }
        return found;
    }

    private void print(String release, Class<?> type, short version) throws Exception {
        absent.clear();
        while (true) {
            Message message = (Message) filled(type);
            try {
                JsonNode json = json(message, version);
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
                message.write(new ByteBufferAccessor(buffer), cache, version);
                System.out.println("{\"release\":\"" + release + "\",\"name\":\"" + type.getSimpleName()
                    + "\",\"key\":" + key(message) + ",\"version\":" + version + ",\"data\":\""
                    + HexFormat.of().formatHex(buffer.array()) + "\",\"values\":" + json + "}");
                return;
            } catch (RuntimeException error) {
                Matcher matcher = NOT_IN_VERSION.matcher(String.valueOf(error.getMessage()));
                if (!matcher.find() || !absent.add(matcher.group(1))) throw error;
            }
        }
    }

    private static int key(Message message) throws Exception {
        try {
            return (short) message.getClass().getMethod("apiKey").invoke(message);
        } catch (NoSuchMethodException error) {
            return -1;
        }
    }

    private static JsonNode json(Message message, short version) throws Exception {
        Class<?> converter;
        try {
            converter = Class.forName(message.getClass().getName() + CONVERTER);
        } catch (ClassNotFoundException error) {
            return dumped(message); // jars of 3.5 to 3.9: all fields are in the only version
        }
        Method write = converter.getMethod("write", message.getClass(), short.class);
        try {
            return (JsonNode) write.invoke(null, message, version);
        } catch (InvocationTargetException error) {
            throw (RuntimeException) error.getCause();
        }
    }

    private static JsonNode dumped(Object value) throws Exception {
        if (value instanceof Collection<?> items) {
            ArrayNode array = JsonNodeFactory.instance.arrayNode();
            for (Object item : items) array.add(dumped(item));
            return array;
        }
        if (value instanceof Uuid || value instanceof String) return new TextNode(value.toString());
        if (value instanceof byte[] bytes) return new BinaryNode(bytes);
        if (!(value instanceof Message)) return JSON.valueToTree(value);
        ObjectNode object = JsonNodeFactory.instance.objectNode();
        for (Field field : fields(value.getClass())) object.set(field.getName(), dumped(field.get(value)));
        return object;
    }

    private static List<Field> fields(Class<?> type) {
        List<Field> fields = new ArrayList<>();
        for (Field field : type.getDeclaredFields()) {
            String name = field.getName();
            if (Modifier.isStatic(field.getModifiers()) || name.startsWith("_")) continue;
            if (name.equals("next") || name.equals("prev")) continue;
            field.setAccessible(true);
            fields.add(field);
        }
        return fields;
    }

    private Object filled(Class<?> type) throws Exception {
        Object made = type.getConstructor().newInstance();
        for (Field field : fields(type)) {
            if (absent.contains(field.getName())) continue;
            Object value = value(field.getGenericType(), field.getType());
            // Unsigned on the wire, and wider in Java.
            if (UINT16.contains(field.getName())) value = random.nextInt(1 << 16);
            // Real ones are small; two others may be taken for one and a tagged field.
            if (field.getName().endsWith("FeatureLevel")) value = (short) random.nextInt(30);
            if (field.getName().equals("crc")) value = random.nextLong() & 0xFFFFFFFFL;
            field.set(made, value);
        }
        return made;
    }

    private Object value(Type generic, Class<?> type) throws Exception {
        if (type == boolean.class) return random.nextBoolean();
        if (type == byte.class || type == Byte.class) return (byte) random.nextInt();
        if (type == short.class || type == Short.class) return (short) random.nextInt();
        if (type == int.class || type == Integer.class) return random.nextInt();
        if (type == long.class || type == Long.class) return random.nextLong();
        if (type == double.class) return random.nextInt() / 8.0;
        if (type == String.class) return text();
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        if (type == byte[].class) return bytes();
        if (type == ByteBuffer.class) return ByteBuffer.wrap(bytes());
        if (type == List.class) {
            Type element = ((ParameterizedType) generic).getActualTypeArguments()[0];
            List<Object> list = new ArrayList<>();
            for (int count = random.nextInt(3); count > 0; count--) list.add(value(element, (Class<?>) element));
            return list;
        }
        if (Collection.class.isAssignableFrom(type)) {
            @SuppressWarnings("unchecked")
            Collection<Object> collection = (Collection<Object>) type.getConstructor().newInstance();
            Class<?> element = (Class<?>) ((ParameterizedType) type.getGenericSuperclass()).getActualTypeArguments()[0];
            for (int count = random.nextInt(3); count > 0; count--) collection.add(filled(element));
            return collection;
        }
        return filled(type);
    }

    private String text() {
        return String.join("", Collections.nCopies(random.nextInt(3), "é")) + Integer.toString(random.nextInt(1000), 36);
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(6)];
        random.nextBytes(bytes);
        return bytes;
    }
}
