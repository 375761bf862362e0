package interop;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends messages and tells the outcome of each. */
final class Produce {
    private final int job;
    private final Arguments arguments;
    private final boolean quiet;
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private long startedNanos;
    private long startedCpuNanos;

    Produce(int job, Arguments arguments) {
        this.job = job;
        this.arguments = arguments;
        this.quiet = arguments.flag("quiet");
    }

    void run() throws Exception {
        String group = arguments.text("group", "interop-producer");
        boolean inTransactions = arguments.text("mode", "sync").equals("transaction");
        DefaultMQProducer producer = inTransactions
            ? new TransactionMQProducer(group, Access.hook(arguments))
            : new DefaultMQProducer(group, Access.hook(arguments));
        Access.encrypt(producer, arguments);
        producer.setNamesrvAddr(arguments.text("name_server"));
        producer.setInstanceName(arguments.text("instance", "java-" + job + "-" + System.nanoTime()));
        producer.setSendMsgTimeout(arguments.number("timeout", 10_000));
        producer.setRetryTimesWhenSendFailed(arguments.number("retries", 2));
        if (arguments.has("compress_over")) {
            producer.setCompressMsgBodyOverHowmuch(arguments.number("compress_over", 4096));
        }
        Transactions transactions = new Transactions(job, arguments);
        if (inTransactions) {
            ((TransactionMQProducer) producer).setTransactionListener(transactions);
        }
        producer.setHeartbeatBrokerInterval(arguments.number("heartbeat", 30_000));
        Arguments.enterNamespace(producer, arguments);
        producer.start();
        new Event(job, "started").print();
        try {
            int warmUp = arguments.number("warm_up", 0);
            int count = arguments.number("count", 1);
            if (warmUp > 0) {
                send(producer, 0, warmUp);
                sent.set(0);
                failed.set(0);
            }
            startedNanos = System.nanoTime();
            startedCpuNanos = cpuNanos();
            send(producer, warmUp, warmUp + count);
            transactions.await(arguments.number("await_checks", 0));
            new Event(job, "done").with("sent", sent.get()).with("failed", failed.get())
                .with("elapsed_us", (System.nanoTime() - startedNanos) / 1000)
                .with("cpu_us", (cpuNanos() - startedCpuNanos) / 1000).print();
        } finally {
            producer.shutdown();
        }
    }

    private void send(DefaultMQProducer producer, int from, int to) throws Exception {
        switch (arguments.text("mode", "sync")) {
            case "sync":
                sync(producer, from, to);
                break;
            case "async":
                async(producer, from, to);
                break;
            case "one_way":
                for (int i = from; i < to; i++) {
                    producer.sendOneway(message(i));
                    sent.incrementAndGet();
                }
                break;
            case "batch":
                batch(producer, from, to);
                break;
            case "transaction":
                for (int i = from; i < to; i++) {
                    try {
                        succeeded(i, ((TransactionMQProducer) producer).sendMessageInTransaction(message(i), null));
                    } catch (Exception e) {
                        failed(i, e);
                    }
                }
                break;
            default:
                throw new IllegalArgumentException("unknown mode: " + arguments.text("mode"));
        }
    }

    private void sync(DefaultMQProducer producer, int from, int to) throws InterruptedException {
        AtomicInteger next = new AtomicInteger(from);
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < arguments.number("in_flight", 1); t++) {
            Thread thread = new Thread(() -> {
                for (int i = next.getAndIncrement(); i < to; i = next.getAndIncrement()) {
                    try {
                        succeeded(i, producer.send(message(i)));
                    } catch (Exception e) {
                        failed(i, e);
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void async(DefaultMQProducer producer, int from, int to) throws InterruptedException {
        Semaphore permits = new Semaphore(arguments.number("in_flight", 32));
        CountDownLatch open = new CountDownLatch(to - from);
        for (int i = from; i < to; i++) {
            int index = i;
            permits.acquire();
            SendCallback callback = new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    succeeded(index, result);
                    permits.release();
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    failed(index, e);
                    permits.release();
                    open.countDown();
                }
            };
            try {
                producer.send(message(i), callback);
            } catch (Exception e) {
                callback.onException(e);
            }
        }
        open.await();
    }

    private void batch(DefaultMQProducer producer, int from, int to) {
        int batchSize = arguments.number("batch_size", 32);
        for (int first = from; first < to; first += batchSize) {
            List<Message> messages = new ArrayList<>();
            for (int i = first; i < Math.min(first + batchSize, to); i++) {
                messages.add(message(i));
            }
            try {
                SendResult result = producer.send(messages);
                for (int i = 0; i < messages.size(); i++) {
                    succeeded(first + i, result);
                }
            } catch (Exception e) {
                for (int i = 0; i < messages.size(); i++) {
                    failed(first + i, e);
                }
            }
        }
    }

    private Message message(int index) {
        Message message = plainMessage(index);
        if (arguments.has("delay_ms")) {
            try {
                // Clients before 5.0 do not have it.
                Message.class.getMethod("setDelayTimeMs", long.class).invoke(message, arguments.number("delay_ms", 0));
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
        if (arguments.text("mode", "sync").equals("transaction")) {
            message.putUserProperty("index", Integer.toString(index));
        }
        return message;
    }

    private Message plainMessage(int index) {
        Message message = new Message(arguments.text("topic"), Body.make(arguments, index));
        if (arguments.has("tags")) {
            String[] tags = arguments.text("tags").split(",");
            message.setTags(tags[index % tags.length]);
        }
        if (arguments.has("keys")) {
            message.setKeys(arguments.text("keys").replace("{}", Integer.toString(index)));
        }
        if (arguments.has("delay_level")) {
            message.setDelayTimeLevel(arguments.number("delay_level", 0));
        }
        for (Map.Entry<String, String> property : arguments.startingWith("property.").entrySet()) {
            message.putUserProperty(property.getKey(), property.getValue());
        }
        return message;
    }

    private void succeeded(int index, SendResult result) {
        sent.incrementAndGet();
        if (!quiet) {
            new Event(job, "sent").with("index", index).with("status", result.getSendStatus().name())
                .with("msg_id", result.getMsgId()).with("offset_msg_id", result.getOffsetMsgId())
                .with("broker", result.getMessageQueue().getBrokerName())
                .with("queue_id", result.getMessageQueue().getQueueId())
                .with("queue_offset", result.getQueueOffset()).print();
        }
    }

    private void failed(int index, Throwable error) {
        failed.incrementAndGet();
        int code = -1;
        if (error instanceof MQBrokerException) {
            code = ((MQBrokerException) error).getResponseCode();
        } else if (error instanceof MQClientException) {
            code = ((MQClientException) error).getResponseCode();
        }
        if (!quiet) {
            new Event(job, "failed").with("index", index).with("code", code).with("message", error.toString()).print();
        }
    }

    /** Processor time of this process so far, user and system. */
    static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }
}
