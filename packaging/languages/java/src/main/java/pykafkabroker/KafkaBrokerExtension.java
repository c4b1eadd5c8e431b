package pykafkabroker;

import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A broker for the tests of a class, reset before each of them:
 * {@code @RegisterExtension static KafkaBrokerExtension kafka = new KafkaBrokerExtension().topics("orders")}. In a field that
 * is not static, each test has a broker of its own. Tests have the broker from {@link #broker}, or as a parameter; a test
 * that fails reports the end of its log.
 */
public final class KafkaBrokerExtension extends BrokerOptions<KafkaBrokerExtension>
        implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, AfterAllCallback, ParameterResolver {
    private KafkaBroker broker;
    private String owner; // the id of the context that has started it

    /** The running broker. */
    public KafkaBroker broker() {
        if (broker == null) {
            throw new IllegalStateException("the broker runs while tests do: register the extension with JUnit");
        }
        return broker;
    }

    /** The addresses for a client's {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return broker().bootstrapServers();
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        if (broker == null) {
            start(context);
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (broker == null) {
            start(context);
        } else {
            broker.reset();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        if (broker != null && context.getExecutionException().isPresent()) {
            context.publishReportEntry("log of the broker", "\n" + broker.log());
        }
        stop(context);
    }

    @Override
    public void afterAll(ExtensionContext context) {
        stop(context);
    }

    private void start(ExtensionContext context) {
        broker = KafkaBroker.start(this);
        owner = context.getUniqueId();
    }

    private void stop(ExtensionContext context) {
        if (context.getUniqueId().equals(owner)) {
            broker.close();
            broker = null;
            owner = null;
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == KafkaBroker.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return broker();
    }
}
