import java.util.Arrays;
import java.util.Random;

/** Values from small sets: the extremes of each type and some of every day, so they compress well. */
final class Choices extends Random {
    private static final long serialVersionUID = 1;
    private static final String[] WORDS = {
        "", "a", "orders", "group-1", "é", "日本語", "𝄞", "a b\"\\\n\0", "x".repeat(127), "ü".repeat(70),
    };

    Choices(long seed) {
        super(seed);
    }

    String word() {
        return WORDS[nextInt(WORDS.length)];
    }

    /** An extreme or an everyday integer of so many bits beside its sign. */
    long integer(int bits) {
        long highest = (1L << bits) - 1;
        switch (nextInt(8)) {
            case 0: return highest;
            case 1: return -highest - 1;
            case 2: return -1;
            case 3: return 0;
            case 4: return highest & 0x0102030405060708L;
            default: return nextInt(100);
        }
    }

    double float64() {
        double[] choices = {0.0, -0.0, 1.5, -1e300, Double.MAX_VALUE, Double.MIN_VALUE, 0.1};
        return choices[nextInt(choices.length)];
    }

    byte[] bytes() {
        byte[] bytes = new byte[nextInt(16) == 0 ? 140 : nextInt(5)];
        Arrays.fill(bytes, (byte) nextInt(256));
        return bytes;
    }
}
