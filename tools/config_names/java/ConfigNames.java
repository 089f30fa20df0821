import java.io.File;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.Map;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the name and the type of every config that a ConfigDef in the given jars defines, a line
 * each, separated by a tab.
 *
 * A ConfigDef is the value of a static field or of a static method without parameters; of objects
 * of Scala also of fields and methods of the object.
 */
public final class ConfigNames {
    private static final TreeSet<String> found = new TreeSet<>();

    public static void main(String[] jars) throws Exception {
        for (String jar : jars) {
            try (JarFile file = new JarFile(new File(jar))) {
                for (JarEntry entry : Collections.list(file.entries())) {
                    if (entry.getName().endsWith(".class")) {
                        String path = entry.getName();
                        add(path.substring(0, path.length() - 6).replace('/', '.'));
                    }
                }
            }
        }
        for (String line : found) {
            System.out.println(line);
        }
        System.out.flush();
        System.exit(0);  // some classes begin threads
    }

    private static void add(String name) {
        try {
            Class<?> type = Class.forName(name, false, ConfigNames.class.getClassLoader());
            for (Field field : type.getDeclaredFields()) {
                if (ConfigDef.class.isAssignableFrom(field.getType())) {
                    Object object = objectOf(type, field.getModifiers(), field);
                    if (object != null) {
                        addAll(name, field.get(object));
                    }
                }
            }
            for (Method method : type.getDeclaredMethods()) {
                boolean isGiven = ConfigDef.class.isAssignableFrom(method.getReturnType());
                if (isGiven && method.getParameterCount() == 0) {
                    Object object = objectOf(type, method.getModifiers(), method);
                    if (object != null) {
                        addAll(name, method.invoke(object));
                    }
                }
            }
        } catch (Throwable error) {
            System.err.println(name + ": " + error);
        }
    }

    /** What has the member: the class, or its one object in Scala; null when there is neither. */
    private static Object objectOf(Class<?> type, int modifiers, AccessibleObject member)
            throws ReflectiveOperationException {
        member.setAccessible(true);
        if (Modifier.isStatic(modifiers)) {
            return type;
        }
        return type.getName().endsWith("$") ? type.getField("MODULE$").get(null) : null;
    }

    private static void addAll(String name, Object definitions) {
        if (definitions == null) {
            System.err.println(name + ": no definitions");
            return;
        }
        for (Map.Entry<String, ConfigDef.ConfigKey> entry :
                ((ConfigDef) definitions).configKeys().entrySet()) {
            found.add(entry.getKey() + "\t" + entry.getValue().type);
        }
    }
}
