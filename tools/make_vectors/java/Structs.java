import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Random structs of schemas that are static fields of Kafka's classes, for what is not generated.
 *
 * <p>{@code java Structs COUNT NAME:VERSION:CLASS#FIELD[+CLASS#FIELD]...} prints lines as {@link
 * Vectors} does. Uses only what the classes had in 0.8.2 already.
 */
public final class Structs {
    private Structs() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8.name());
        for (int index = 1; index < arguments.length; index++) {
            String[] parts = arguments[index].split(":");
            for (int number = 0; number < Integer.parseInt(arguments[0]); number++) {
                Choices random = new Choices(arguments[index].hashCode() * 31L + number);
                Map<String, Object> values = new LinkedHashMap<>();
                StringBuilder bytes = new StringBuilder();
                for (String place : parts[2].split("\\+")) {
                    bytes.append(Json.hex(write(schemaAt(place), values, random)).substring(4));
                }
                StringBuilder text = new StringBuilder("[");
                Json.append(text, parts[0]);
                text.append(',').append(parts[1]).append(',');
                Json.append(text, Base64.getEncoder().encodeToString(fromHex(bytes.toString())));
                text.append(',');
                Json.append(text, values);
                out.println(text.append(']'));
            }
        }
        out.flush();
    }

    private static Schema schemaAt(String place) throws Exception {
        Field field = Class.forName(place.split("#")[0]).getDeclaredField(place.split("#")[1]);
        field.setAccessible(true);
        return (Schema) field.get(null);
    }

    private static byte[] write(Schema schema, Map<String, Object> values, Choices random)
            throws Exception {
        Struct struct = fill(schema, values, random);
        ByteBuffer buffer = ByteBuffer.allocate(struct.sizeOf());
        struct.writeTo(buffer);
        return buffer.array();
    }

    private static Struct fill(Schema schema, Map<String, Object> values, Choices random)
            throws Exception {
        Struct struct = new Struct(schema);
        for (Object each : (Object[]) Schema.class.getMethod("fields").invoke(schema)) {
            Object field = each;
            if (each.getClass().getSimpleName().equals("BoundField")) {
                field = each.getClass().getField("def").get(each);
            }
            String name = (String) field.getClass().getField("name").get(field);
            Object[] made = make((Type) field.getClass().getField("type").get(field), random);
            struct.set(name, made[0]);
            values.put(name, made[1]);
        }
        return struct;
    }

    /** A value of a type, and how it is printed. */
    private static Object[] make(Type type, Choices random) throws Exception {
        if (type instanceof Schema) {
            Map<String, Object> values = new LinkedHashMap<>();
            return new Object[] {fill((Schema) type, values, random), values};
        }
        String name = type.toString();
        boolean isNullable = name.startsWith("NULLABLE_") || isNullableArray(type);
        if (isNullable && random.nextInt(4) == 0) {
            return new Object[] {null, null};
        }
        switch (name.replace("NULLABLE_", "")) {
            case "INT8": return twice((byte) random.integer(7));
            case "INT16": return twice((short) random.integer(15));
            case "INT32": return twice((int) random.integer(31));
            case "INT64": return twice(random.integer(63));
            case "STRING": return twice(random.word());
            case "BYTES":
                byte[] bytes = random.bytes();
                return new Object[] {ByteBuffer.wrap(bytes), Json.hex(bytes)};
            default:
                Type element = (Type) fieldOf(type, "type");
                List<Object> items = new ArrayList<>();
                List<Object> shown = new ArrayList<>();
                for (int left = random.nextInt(4); left > 0; left--) {
                    Object[] made = make(element, random);
                    items.add(made[0]);
                    shown.add(made[1]);
                }
                return new Object[] {items.toArray(), shown};
        }
    }

    private static boolean isNullableArray(Type type) throws Exception {
        for (Field field : type.getClass().getDeclaredFields()) {
            if (field.getName().equals("nullable")) {
                return (boolean) fieldOf(type, "nullable");
            }
        }
        return false;
    }

    private static Object fieldOf(Type type, String name) throws Exception {
        Field field = type.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(type);
    }

    private static Object[] twice(Object value) {
        return new Object[] {value, value};
    }

    private static byte[] fromHex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(text.substring(2 * index, 2 * index + 2), 16);
        }
        return bytes;
    }
}
