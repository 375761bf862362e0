package interop;

import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumes a topic with a push consumer and tells every message. */
final class Consume {
    private final int job;
    private final boolean quiet;
    private final int failFirst;
    private final int retryLevel;
    private final int count;
    private final DefaultMQPushConsumer consumer;
    private final AtomicInteger succeeded = new AtomicInteger();
    private final AtomicLong firstNanos = new AtomicLong();
    private final AtomicLong firstCpuNanos = new AtomicLong();
    private final AtomicBoolean told = new AtomicBoolean();
    private final CountDownLatch enough = new CountDownLatch(1);
    private final String reply;
    private final DefaultMQProducer replier;

    Consume(int job, Arguments arguments) throws Exception {
        this.job = job;
        quiet = arguments.flag("quiet");
        failFirst = arguments.number("fail_first", 0);
        retryLevel = arguments.number("retry_level", 0);
        count = arguments.number("count", Integer.MAX_VALUE);
        reply = arguments.text("reply", null);
        replier = reply == null ? null : Rpc.producer(arguments, "interop-replier", job);
        consumer = new DefaultMQPushConsumer(arguments.text("group"), Access.hook(arguments),
            new AllocateMessageQueueAveragely());
        Access.encrypt(consumer, arguments);
        if (arguments.flag("broadcast")) {
            broadcast(consumer);
        }
        consumer.setNamesrvAddr(arguments.text("name_server"));
        consumer.setInstanceName(arguments.text("instance", "java-" + job + "-" + System.nanoTime()));
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(arguments.number("heartbeat", 1000));
        Arguments.enterNamespace(consumer, arguments);
        int threads = arguments.number("threads", 8);
        consumer.setConsumeThreadMin(threads);
        consumer.setConsumeThreadMax(threads);
        switch (arguments.text("from", "first")) {
            case "first":
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
                break;
            case "last":
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
                break;
            default:
                consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
                consumer.setConsumeTimestamp(arguments.text("from"));
        }
        if (arguments.has("sql")) {
            consumer.subscribe(arguments.text("topic"), MessageSelector.bySql(arguments.text("sql")));
        } else {
            consumer.subscribe(arguments.text("topic"), arguments.text("expression", "*"));
        }
        if (arguments.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                handle(messages, context.getMessageQueue())
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(retryLevel);
                return handle(messages, context.getMessageQueue())
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
    }

    /** By reflection: the model's class has moved. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcast(DefaultMQPushConsumer consumer) throws ReflectiveOperationException {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }

    void start() throws Exception {
        consumer.start();
        new Event(job, "started").print();
    }

    void stop() {
        consumer.shutdown();
        if (replier != null) {
            replier.shutdown();
        }
        new Event(job, "stopped").with("succeeded", succeeded.get()).print();
    }

    void enough() {
        enough.countDown();
    }

    void awaitEnough() throws InterruptedException {
        enough.await();
    }

    private boolean handle(List<MessageExt> messages, MessageQueue queue) {
        if (firstNanos.compareAndSet(0, System.nanoTime())) {
            firstCpuNanos.set(Produce.cpuNanos());
        }
        boolean success = true;
        for (MessageExt message : messages) {
            boolean fails = message.getReconsumeTimes() < failFirst;
            if (replier != null) {
                reply(message);
            }
            success &= !fails;
            if (!quiet) {
                tell(message, queue, fails);
            }
        }
        if (success && succeeded.addAndGet(messages.size()) >= count && told.compareAndSet(false, true)) {
            new Event(job, "done").with("succeeded", succeeded.get())
                .with("elapsed_us", (System.nanoTime() - firstNanos.get()) / 1000)
                .with("cpu_us", (Produce.cpuNanos() - firstCpuNanos.get()) / 1000).print();
            enough();
        }
        return success;
    }

    private void reply(MessageExt message) {
        try {
            Rpc.reply(replier, message, reply);
        } catch (Exception e) {
            new Event(job, "error").with("message", e.toString()).print();
        }
    }

    private void tell(MessageExt message, MessageQueue queue, boolean fails) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        String offsetMsgId = message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null;
        new Event(job, "message").with("outcome", fails ? "later" : "success").with("msg_id", message.getMsgId())
            .with("offset_msg_id", offsetMsgId).with("topic", message.getTopic()).with("broker", queue.getBrokerName())
            .with("queue_id", message.getQueueId()).with("queue_offset", message.getQueueOffset())
            .with("reconsume_times", message.getReconsumeTimes()).with("size", message.getBody().length)
            .with("sha1", Body.sha1(message.getBody())).with("tags", message.getTags())
            .with("keys", message.getKeys()).with("properties", properties)
            .with("born_ms", message.getBornTimestamp()).with("stored_ms", message.getStoreTimestamp()).print();
    }
}
