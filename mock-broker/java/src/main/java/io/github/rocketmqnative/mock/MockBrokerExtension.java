package io.github.rocketmqnative.mock;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives the tests of a class one broker, emptied before each of them, as a parameter.
 *
 * <pre>{@code
 * @RegisterExtension
 * static MockBrokerExtension broker = new MockBrokerExtension("--topic", "orders:4");
 *
 * @Test
 * void sends(MockBroker broker) { .. }
 * }</pre>
 *
 * <p>{@code @ExtendWith(MockBrokerExtension.class)} does the same with the default settings.
 */
public final class MockBrokerExtension implements BeforeEachCallback, AfterAllCallback, ParameterResolver {
    private final String[] arguments;
    private MockBroker broker;

    /** A broker with the default settings. */
    public MockBrokerExtension() {
        this(new String[0]);
    }

    /** A broker with further arguments of the command. */
    public MockBrokerExtension(String... arguments) {
        this.arguments = arguments;
    }

    /** The broker; started when it is first asked for. */
    public synchronized MockBroker broker() {
        if (broker == null) {
            broker = MockBroker.start(arguments);
        }
        return broker;
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        broker().reset();
    }

    @Override
    public synchronized void afterAll(ExtensionContext context) {
        if (broker != null) {
            broker.close();
            broker = null;
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == MockBroker.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return broker();
    }
}
