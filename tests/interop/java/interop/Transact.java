package interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A transaction producer that goes on answering checks until it is stopped. What becomes of a message is said by its body:
 * {@code commit...} and {@code rollback...} when the broker asks, {@code now...} at once.
 */
final class Transact implements TransactionListener {
    private final int job;
    private final Arguments arguments;
    private final TransactionMQProducer producer;

    Transact(int job, Arguments arguments) throws Exception {
        this.job = job;
        this.arguments = arguments;
        producer = new TransactionMQProducer(arguments.text("group"));
        producer.setNamesrvAddr(arguments.text("name_server"));
        producer.setInstanceName("java-transactions-" + job + "-" + System.nanoTime());
        producer.setSendMsgTimeout(arguments.number("timeout", 10_000));
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(this);
        Arguments.enterNamespace(producer, arguments);
    }

    void start() throws Exception {
        producer.start();
        for (String body : arguments.text("bodies").split(",")) {
            Message message = new Message(arguments.text("topic"), body.getBytes(StandardCharsets.UTF_8));
            producer.sendMessageInTransaction(message, null);
        }
        new Event(job, "started").print();
    }

    void stop() {
        producer.shutdown();
        new Event(job, "stopped").print();
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return text(message).startsWith("now") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.UNKNOW;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        String body = text(message);
        new Event(job, "checked").with("body", body).with("topic", message.getTopic()).print();
        if (body.startsWith("commit")) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
        return body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
