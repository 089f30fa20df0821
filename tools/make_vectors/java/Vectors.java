import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.jar.JarFile;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

/**
 * Random messages of every generated message class of some jars, written by the classes themselves.
 *
 * <p>{@code java Vectors COUNT JAR...} prints a JSON line for each: [class, version, bytes in base64,
 * values]. Values are what the fields were set to, by the names of the schema, in wire order: tagged
 * fields last, and only those that are not at their default; bytes are {@code hex:00ff}, uuids
 * Kafka's text. The first message of a layout has all defaults, the second nothing null or empty.
 */
public final class Vectors {
    private static final int FIRST_UNKNOWN_TAG = 1000;
    private static final int DEFAULTS = 0;
    private static final int FULL = 1;
    private static final int TRIES = 20;

    private final Choices random;
    private final short version;
    private final int number;

    private Vectors(String name, short version, int number) {
        this.random = new Choices(name.hashCode() * 31L * 31L + version * 31L + number);
        this.version = version;
        this.number = number;
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String name : messageClasses(Arrays.copyOfRange(arguments, 1, arguments.length))) {
            Class<?> type = Class.forName(name);
            Message sample = (Message) type.getConstructor().newInstance();
            for (int v = sample.lowestSupportedVersion(); v <= sample.highestSupportedVersion(); v++) {
                for (int number = 0; number < count; number++) {
                    print(type, (short) v, number, out);
                }
            }
        }
        out.flush();
    }

    /** Old releases declare what they cannot write as nullable, so more than one try may be due. */
    private static void print(Class<?> type, short version, int number, PrintStream out)
            throws Exception {
        RuntimeException last = null;
        for (int attempt = 0; attempt < TRIES; attempt++) {
            try {
                out.println(new Vectors(type.getName(), version, number + attempt * TRIES).line(type));
                return;
            } catch (RuntimeException error) {
                last = error;
            }
        }
        System.err.println(type.getSimpleName() + " v" + version + " cannot be written: " + last);
    }

    /** The top-level classes with schemas that are messages, in the order of their names. */
    private static Collection<String> messageClasses(String[] jars) throws IOException {
        Collection<String> names = new TreeSet<>();
        for (String jar : jars) {
            try (JarFile file = new JarFile(jar)) {
                file.stream().map(entry -> entry.getName()).filter(Vectors::isGenerated)
                    .map(entry -> entry.substring(0, entry.length() - ".class".length()).replace('/', '.'))
                    .filter(Vectors::isMessage).forEach(names::add);
            }
        }
        return names;
    }

    private static boolean isGenerated(String entry) {
        boolean place = entry.contains("/generated/") || entry.contains("common/message/")
            || entry.contains("common/metadata/");
        return place && entry.endsWith(".class") && !entry.contains("$");
    }

    private static boolean isMessage(String name) {
        try {
            Class<?> type = Class.forName(name);
            return Message.class.isAssignableFrom(type) && !Modifier.isAbstract(type.getModifiers());
        } catch (ReflectiveOperationException | LinkageError error) {
            return false;
        }
    }

    private String line(Class<?> type) throws Exception {
        Message message = (Message) type.getConstructor().newInstance();
        Map<String, Object> values = fill(message, 0);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(type + " v" + version + " wrote less than it said");
        }
        StringBuilder text = new StringBuilder("[");
        Json.append(text, type.getSimpleName());
        text.append(',').append(version).append(',');
        Json.append(text, Base64.getEncoder().encodeToString(buffer.array()));
        text.append(',');
        Json.append(text, values);
        return text.append(']').toString();
    }

    /** Set the fields that the version has; the values that go on the wire. */
    private Map<String, Object> fill(Message message, int depth) throws Exception {
        Map<String, Object> values = new LinkedHashMap<>();
        Schema schema = schemaOf(message.getClass());
        if (schema == null) {
            return values;
        }
        Message defaults = message.getClass().getDeclaredConstructor().newInstance();
        Map<Integer, org.apache.kafka.common.protocol.types.Field> tags = new TreeMap<>();
        boolean isFlexible = false;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                isFlexible = true;
                tags.putAll(tagsOf((TaggedFields) bound.def.type));
            } else {
                values.put(bound.def.name, set(message, bound.def, depth));
            }
        }
        for (org.apache.kafka.common.protocol.types.Field tag : tags.values()) {
            Object value = set(message, tag, depth);
            Field field = fieldOf(message.getClass(), tag.name);
            if (!Objects.deepEquals(field.get(message), field.get(defaults))) {
                values.put(tag.name, value);
            }
        }
        if (isFlexible && number != DEFAULTS && (number == FULL ? depth == 0 : random.nextInt(4) == 0)) {
            values.put("unknown_tags", addUnknownTags(message));
        }
        return values;
    }

    private Map<String, Object> addUnknownTags(Message message) {
        Map<String, Object> unknown = new LinkedHashMap<>();
        int tag = FIRST_UNKNOWN_TAG;
        for (int count = 1 + random.nextInt(2); count > 0; count--) {
            tag += 1 + random.nextInt(count == 1 ? 5 : 1 << 20);
            byte[] content = random.bytes();
            message.unknownTaggedFields().add(new RawTaggedField(tag, content));
            unknown.put(Integer.toString(tag), Json.hex(content));
        }
        return unknown;
    }

    private Object set(Message owner, org.apache.kafka.common.protocol.types.Field spec, int depth)
            throws Exception {
        Field field = fieldOf(owner.getClass(), spec.name);
        Class<?> type = field.getType();
        if (number == DEFAULTS) {
            return shown(field.get(owner));
        }
        if (spec.type.isNullable() && number != FULL && random.nextInt(4) == 0) {
            field.set(owner, null);
            return null;
        }
        if (Collection.class.isAssignableFrom(type)) {
            return setCollection(owner, field, depth);
        }
        Object value = one(type, spec.type.toString(), depth);
        field.set(owner, value instanceof Filled ? ((Filled) value).message : value);
        return value instanceof Filled ? ((Filled) value).values : shown(value);
    }

    private Object setCollection(Object owner, Field field, int depth) throws Exception {
        boolean isList = field.getType() == List.class;
        ParameterizedType generic = (ParameterizedType)
            (isList ? field.getGenericType() : field.getType().getGenericSuperclass());
        java.lang.reflect.Type argument = generic.getActualTypeArguments()[0];
        Class<?> element = (Class<?>) argument;
        Collection<Object> filled = newCollection(isList ? ArrayList.class : field.getType());
        List<Object> values = new ArrayList<>();
        for (int left = sizeOfArray(element, depth); left > 0; left--) {
            Object value = one(element, "", depth + 1);
            filled.add(value instanceof Filled ? ((Filled) value).message : value);
            values.add(value instanceof Filled ? ((Filled) value).values : shown(value));
        }
        field.set(owner, filled);
        return values;
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> newCollection(Class<?> type) throws Exception {
        Constructor<?> constructor = type.getDeclaredConstructor();
        return (Collection<Object>) constructor.newInstance();
    }

    private int sizeOfArray(Class<?> element, int depth) {
        if (number == FULL) {
            return depth == 0 ? 3 : 1;
        }
        if (!Message.class.isAssignableFrom(element) && depth < 2 && random.nextInt(24) == 0) {
            return 130;
        }
        return random.nextInt(depth == 0 ? 4 : 3);
    }

    private static final class Filled {
        private final Message message;
        private final Map<String, Object> values;

        private Filled(Message message, Map<String, Object> values) {
            this.message = message;
            this.values = values;
        }
    }

    /** A random value of a class; `schemaType` tells unsigned integers. */
    private Object one(Class<?> type, String schemaType, int depth) throws Exception {
        if (Message.class.isAssignableFrom(type)) {
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            Message message = (Message) constructor.newInstance();
            return new Filled(message, fill(message, depth + 1));
        } else if (type == boolean.class) {
            return random.nextBoolean();
        } else if (type == byte.class || type == Byte.class) {
            return (byte) random.integer(7);
        } else if (type == short.class || type == Short.class) {
            return (short) random.integer(15);
        } else if (schemaType.equals("UINT16")) {
            return (int) (random.integer(15) & 0xFFFF);
        } else if (schemaType.equals("UINT32") || schemaType.equals("UNSIGNED_INT32")) {
            return random.integer(31) & 0xFFFFFFFFL;
        } else if (type == int.class || type == Integer.class) {
            return (int) random.integer(31);
        } else if (type == long.class || type == Long.class) {
            return random.integer(63);
        } else if (type == double.class) {
            return random.float64();
        } else if (type == String.class) {
            return number == FULL ? "orders" : random.word();
        } else if (type == byte[].class) {
            return random.bytes();
        } else if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(random.bytes());
        } else if (type.getSimpleName().equals("BaseRecords")) {
            Class<?> records = Class.forName(type.getPackageName() + ".MemoryRecords");
            return records.getMethod("readableRecords", ByteBuffer.class)
                .invoke(null, ByteBuffer.wrap(random.bytes()));
        } else if (type.getSimpleName().equalsIgnoreCase("Uuid")) {
            return type.getConstructor(long.class, long.class).newInstance(random.integer(63), random.integer(63));
        }
        throw new IllegalStateException("no values of " + type);
    }

    /** The schema of a class in the version; null when it has no such version. */
    private Schema schemaOf(Class<?> type) throws Exception {
        Field field = type.getDeclaredField("SCHEMAS");
        Schema[] schemas = (Schema[]) field.get(null);
        return version < schemas.length ? schemas[version] : null;
    }

    private static Field fieldOf(Class<?> type, String schemaName) {
        for (Field field : type.getDeclaredFields()) {
            boolean isIt = field.getName().equalsIgnoreCase(schemaName.replace("_", ""));
            if (isIt && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                return field;
            }
        }
        throw new IllegalStateException(type + " has no field " + schemaName);
    }

    @SuppressWarnings("unchecked")
    private static Map<Integer, org.apache.kafka.common.protocol.types.Field> tagsOf(TaggedFields tags)
            throws Exception {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return (Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(tags);
    }

    /** A value as it is printed; structs at their default are read back field by field. */
    private Object shown(Object value) throws Exception {
        if (value instanceof byte[]) {
            return Json.hex((byte[]) value);
        } else if (value instanceof ByteBuffer) {
            ByteBuffer copy = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[copy.remaining()];
            copy.get(bytes);
            return Json.hex(bytes);
        } else if (value instanceof Collection) {
            List<Object> items = new ArrayList<>();
            for (Object item : (Collection<?>) value) {
                items.add(shown(item));
            }
            return items;
        } else if (value instanceof Message) {
            return fill((Message) value, 1);
        } else if (value != null && value.getClass().getSimpleName().equals("MemoryRecords")) {
            return shown(value.getClass().getMethod("buffer").invoke(value));
        } else if (value != null && value.getClass().getSimpleName().equalsIgnoreCase("Uuid")) {
            long high = (long) value.getClass().getMethod("getMostSignificantBits").invoke(value);
            long low = (long) value.getClass().getMethod("getLeastSignificantBits").invoke(value);
            byte[] bytes = ByteBuffer.allocate(16).putLong(high).putLong(low).array();
            return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
        }
        return value;
    }
}
