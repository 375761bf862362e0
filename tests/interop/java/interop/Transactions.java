package interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Decides transactions by the number of the message, its property {@code index}: {@code decisions} and {@code checks}
 * are words taken in turn, {@code commit}, {@code rollback}, {@code unknown}, and for checks {@code later}, which is
 * unknown when first asked and a commit then.
 */
final class Transactions implements TransactionListener {
    private static final long LIMIT_MS = 150_000;

    private final int job;
    private final String[] decisions;
    private final String[] checks;
    private final Map<Integer, AtomicInteger> asked = new ConcurrentHashMap<>();
    private final Map<Integer, LocalTransactionState> decided = new ConcurrentHashMap<>();

    Transactions(int job, Arguments arguments) {
        this.job = job;
        decisions = arguments.text("decisions", "commit").split(",");
        checks = arguments.text("checks", "commit").split(",");
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(decisions[index(message) % decisions.length]);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        int index = index(message);
        int times = asked.computeIfAbsent(index, i -> new AtomicInteger()).incrementAndGet();
        String word = checks[index % checks.length];
        LocalTransactionState state = state(word.equals("later") ? times == 1 ? "unknown" : "commit" : word);
        new Event(job, "checked").with("index", index).with("times", times).with("state", state.name())
            .with("topic", message.getTopic()).with("keys", message.getKeys()).with("msg_id", message.getMsgId())
            .with("transaction_id", message.getTransactionId()).with("sha1", Body.sha1(message.getBody())).print();
        if (state != LocalTransactionState.UNKNOW) {
            synchronized (decided) {
                decided.put(index, state);
                decided.notifyAll();
            }
        }
        return state;
    }

    /** Waits until so many messages were decided by a check. */
    void await(int count) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LIMIT_MS);
        synchronized (decided) {
            while (decided.size() < count) {
                long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                if (left <= 0) {
                    throw new IllegalStateException("of " + count + " messages checks decided only " + decided);
                }
                decided.wait(left);
            }
        }
    }

    private static int index(Message message) {
        return Integer.parseInt(message.getUserProperty("index"));
    }

    private static LocalTransactionState state(String word) {
        switch (word) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            case "unknown":
                return LocalTransactionState.UNKNOW;
            default:
                throw new IllegalArgumentException("unknown decision: " + word);
        }
    }
}
