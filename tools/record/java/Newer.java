import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Methods that the oldest client (0.9) does not have, called by name; and their absence. */
final class Newer {
    private Newer() {}

    /** A class that old clients do not have. */
    static Class<?> type(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException absent) {
            throw new UnsupportedOperationException(absent);
        }
    }

    /** Whether objects of the class have such a method. */
    static boolean has(Class<?> type, String name, Class<?>... parameters) {
        try {
            type.getMethod(name, parameters);
            return true;
        } catch (NoSuchMethodException absent) {
            return false;
        }
    }

    /** What the method without parameters gives, or `otherwise` in a client without it. */
    static Object callOr(Object object, Class<?> type, String name, Object otherwise) {
        return has(type, name) ? call(object, type, name, new Class<?>[0]) : otherwise;
    }

    /** What the method gives; its exceptions are the caller's. */
    static Object call(
            Object object, Class<?> type, String name, Class<?>[] parameters, Object... arguments) {
        try {
            Method method = type.getMethod(name, parameters);
            return method.invoke(object, arguments);
        } catch (InvocationTargetException failure) {
            if (failure.getCause() instanceof RuntimeException) {
                throw (RuntimeException) failure.getCause();
            }
            throw new IllegalStateException(failure.getCause());
        } catch (ReflectiveOperationException absent) {
            throw new UnsupportedOperationException(absent);
        }
    }
}
