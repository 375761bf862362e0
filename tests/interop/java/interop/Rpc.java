package interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Request-reply, on either side. By reflection, as clients before 4.6 do not have it. */
final class Rpc {
    private Rpc() {
    }

    /** Asks `count` questions one after the other and tells each reply. */
    static void request(int job, Arguments arguments) throws Exception {
        DefaultMQProducer producer = producer(arguments, "interop-asker", job);
        new Event(job, "started").print();
        try {
            int timeout = arguments.number("timeout", 30_000);
            for (int i = 0; i < arguments.number("count", 1); i++) {
                byte[] body = (arguments.text("body", "question") + " " + i).getBytes(StandardCharsets.UTF_8);
                Message question = new Message(arguments.text("topic"), body);
                Message reply = (Message) producer.getClass().getMethod("request", Message.class, long.class)
                    .invoke(producer, question, (long) timeout);
                new Event(job, "reply").with("index", i).with("body", new String(reply.getBody(), StandardCharsets.UTF_8))
                    .with("properties", reply.getProperties()).print();
            }
            new Event(job, "done").print();
        } finally {
            producer.shutdown();
        }
    }

    /** Sends the reply to a question: its body and what is added to it. */
    static void reply(DefaultMQProducer producer, MessageExt question, String added) throws Exception {
        byte[] body = (new String(question.getBody(), StandardCharsets.UTF_8) + added).getBytes(StandardCharsets.UTF_8);
        Message reply = (Message) Class.forName("org.apache.rocketmq.client.utils.MessageUtil")
            .getMethod("createReplyMessage", Message.class, byte[].class).invoke(null, question, body);
        producer.send(reply, 10_000);
    }

    static DefaultMQProducer producer(Arguments arguments, String group, int job) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(arguments.text("group", group), Access.hook(arguments));
        Access.encrypt(producer, arguments);
        producer.setNamesrvAddr(arguments.text("name_server"));
        producer.setInstanceName("java-rpc-" + job + "-" + System.nanoTime());
        Arguments.enterNamespace(producer, arguments);
        producer.start();
        return producer;
    }
}
