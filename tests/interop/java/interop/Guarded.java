package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Arrays;

/**
 * Runs a main class unchanged, bound to its standard input: the line {@code stop} ends it as SIGTERM does, with all its
 * shutdown hooks, and the end of the input, which comes with the end of the test process however that ended, kills it.
 */
public final class Guarded {
    private Guarded() {
    }

    public static void main(String[] words) throws Exception {
        Thread guard = new Thread(Guarded::watch, "stdin-guard");
        guard.setDaemon(true);
        guard.start();
        Class.forName(words[0]).getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
    }

    private static void watch() {
        try {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.equals("stop")) {
                    new Thread(() -> System.exit(0), "stop").start();
                }
            }
        } catch (IOException e) {
            // The same as the end of the input.
        }
        Runtime.getRuntime().halt(137);
    }
}
