package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The Java client as a program for tests. With a command as arguments it runs that command; without arguments it reads
 * commands from standard input, each as {@code JOB COMMAND key=value...}, so that many scenarios share one virtual
 * machine. What happens is told in JSON lines on standard output. See ../README.md for the commands.
 */
public final class Driver {
    private static final Map<Integer, Consume> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<Integer, Transact> TRANSACTIONS = new ConcurrentHashMap<>();

    private Driver() {
    }

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);
        boolean succeeded = words.length > 0 ? single(words) : session();
        // The clients leave threads behind that are not daemons.
        System.exit(succeeded ? 0 : 1);
    }

    private static boolean single(String[] words) throws Exception {
        boolean succeeded = run(0, words[0], new Arguments(words, 1));
        Consume consumer = CONSUMERS.get(0);
        if (consumer != null) {
            Thread watcher = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) {
                        continue;
                    }
                } catch (java.io.IOException e) {
                    // Closed is closed.
                }
                consumer.enough();
            });
            watcher.setDaemon(true);
            watcher.start();
            consumer.awaitEnough();
            consumer.stop();
        }
        return succeeded;
    }

    private static boolean session() throws Exception {
        ExecutorService jobs = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split(" +");
            int job = Integer.parseInt(words[0]);
            jobs.execute(() -> run(job, words[1], new Arguments(words, 2)));
        }
        CONSUMERS.values().forEach(Consume::stop);
        TRANSACTIONS.values().forEach(Transact::stop);
        return true;
    }

    private static boolean run(int job, String command, Arguments arguments) {
        try {
            switch (command) {
                case "produce":
                    new Produce(job, arguments).run();
                    break;
                case "consume":
                    Consume consumer = new Consume(job, arguments);
                    CONSUMERS.put(job, consumer);
                    consumer.start();
                    break;
                case "transact":
                    Transact producer = new Transact(job, arguments);
                    TRANSACTIONS.put(job, producer);
                    producer.start();
                    break;
                case "stop":
                    Transact transacting = TRANSACTIONS.remove(job);
                    if (transacting != null) {
                        transacting.stop();
                        break;
                    }
                    Consume running = CONSUMERS.remove(job);
                    if (running == null) {
                        throw new IllegalArgumentException("job " + job + " consumes nothing");
                    }
                    running.stop();
                    break;
                case "request":
                    Rpc.request(job, arguments);
                    break;
                case "mqadmin":
                    Tool.run(job, arguments);
                    break;
                default:
                    throw new IllegalArgumentException("unknown command: " + command);
            }
            return true;
        } catch (Throwable e) {
            new Event(job, "error").with("message", e.toString()).with("at", Arrays.toString(e.getStackTrace())).print();
            return false;
        }
    }
}
