package io.github.rocketmqnative.mock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The Java client against a broker that is broken on purpose and whose clock is turned. */
class MockBrokerTest {
    @RegisterExtension
    static MockBrokerExtension extension = new MockBrokerExtension("--topic", "orders:2");

    private DefaultMQProducer producer;

    @BeforeEach
    void startProducer(MockBroker broker) throws Exception {
        producer = new DefaultMQProducer("p-" + System.nanoTime());
        producer.setNamesrvAddr(broker.nameServer());
        producer.setInstanceName(String.valueOf(System.nanoTime()));
        producer.setSendMsgTimeout(3000);
        producer.start();
        producer.send(message("warm"));
    }

    @AfterEach
    void stopProducer() {
        producer.shutdown();
    }

    private static Message message(String body) {
        return new Message("orders", "tag", "key", body.getBytes(StandardCharsets.UTF_8));
    }

    /** What the client gets over within its time: the send succeeds, and the fault has met it. */
    @Test
    void sendsSurviveWhatPasses(MockBroker broker) throws Exception {
        String[] actions = {"{\"answer\":{\"code\":2,\"remark\":\"busy\"}}", "{\"delay\":{\"ms\":30}}", "\"close\"", "{\"reset\":{}}",
            "{\"reset\":{\"after_bytes\":9}}", "{\"truncate\":{\"bytes\":9}}", "\"duplicate\"", "{\"drip\":{\"bytes\":9,\"every_ms\":1}}",
            "{\"latency\":{\"median_ms\":2,\"p99_ms\":9}}"};
        for (String action : actions) {
            try (MockBroker.Fault fault = broker.fault("{\"on\":{\"request\":\"send\"},\"times\":1,\"do\":" + action + "}")) {
                assertEquals(SendStatus.SEND_OK, producer.send(message(action), 10_000).getSendStatus(), action);
                assertEquals(1, fault.hits(), action);
            }
        }
    }

    /** What it cannot get over: it says so, or says it by the status. */
    @Test
    void sendsFailAsTheyShould(MockBroker broker) throws Exception {
        try (MockBroker.Fault fault = broker.fault("{\"on\":{\"request\":\"send\"},\"do\":{\"answer\":{\"code\":16,\"remark\":\"no\"}}}")) {
            // With a producer's retries behind it, the broker's word comes inside the client's.
            MQClientException error = assertThrows(MQClientException.class, () -> producer.send(message("x")));
            assertEquals(16, error.getResponseCode());
        }
        for (String action : new String[] {"\"drop_answer\"", "\"drop_request\"", "{\"corrupt\":{\"at\":8}}"}) {
            try (MockBroker.Fault fault = broker.fault("{\"on\":{\"request\":\"send\"},\"do\":" + action + "}")) {
                assertThrows(Exception.class, () -> producer.send(message("x"), 500), action);
                assertTrue(fault.hits() >= 1, action);
            }
        }
        try (MockBroker.Fault fault = broker.fault("{\"do\":\"flush_timeout\"}")) {
            // The connection of the last fault may be on its way out.
            assertEquals(SendStatus.FLUSH_DISK_TIMEOUT, producer.send(message("x"), 10_000).getSendStatus());
        }
        try (MockBroker.Fault fault = broker.fault("{\"do\":\"disk_full\"}")) {
            assertEquals(14, assertThrows(MQClientException.class, () -> producer.send(message("x"))).getResponseCode());
        }
        try (MockBroker.Fault fault = broker.fault("{\"do\":\"no_routes\"}")) {
            assertThrows(Exception.class, () -> producer.send(new Message("unheard-of", "x".getBytes(StandardCharsets.UTF_8))));
        }
        try (MockBroker.Fault fault = broker.fault("{\"on\":{\"port\":\"broker\"},\"do\":\"off\"}")) {
            assertThrows(Exception.class, () -> producer.send(message("x"), 500));
        }
    }

    /** A connection on which nothing comes back: the send fails, and works again on another connection. */
    @Test
    void aHalfOpenConnectionIsGivenUp(MockBroker broker) throws Exception {
        broker.fault("{\"on\":{\"request\":\"send\"},\"times\":1,\"do\":\"half_open\"}");
        assertThrows(Exception.class, () -> producer.send(message("x"), 500));
        broker.advanceSessions(Duration.ofMinutes(3));
        long end = System.nanoTime() + Duration.ofSeconds(150).toNanos();
        while (true) {
            try {
                assertEquals(SendStatus.SEND_OK, producer.send(message("again"), 500).getSendStatus());
                return;
            } catch (Exception error) {
                if (System.nanoTime() > end) {
                    throw error;
                }
            }
        }
    }

    /** Two hours pass in a moment, then a week: the message comes at once, and nobody is dropped. */
    @Test
    void aDelayedMessageComesWhenTimeIsTurned(MockBroker broker) throws Exception {
        BlockingQueue<String> arrivals = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g");
        consumer.setNamesrvAddr(broker.nameServer());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "later");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> arrivals.add(new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            Message later = new Message("orders", "later", "in two hours".getBytes(StandardCharsets.UTF_8));
            later.setDelayTimeLevel(18);
            producer.send(later);
            assertTrue(broker.requests("send", "orders").size() >= 2);
            broker.advance(Duration.ofHours(2));
            assertEquals("in two hours", arrivals.poll(150, TimeUnit.SECONDS));
            broker.advance(Duration.ofDays(7));
            producer.send(new Message("orders", "later", "after a week".getBytes(StandardCharsets.UTF_8)));
            assertEquals("after a week", arrivals.poll(150, TimeUnit.SECONDS));
        } finally {
            consumer.shutdown();
        }
    }
}
