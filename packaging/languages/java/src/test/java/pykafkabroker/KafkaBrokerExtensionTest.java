package pykafkabroker;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.reflect.Proxy;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;

/** One broker for a class and what is nested in it, reset before each test. */
@ExtendWith(KafkaBrokerExtension.class)
class KafkaBrokerExtensionTest {
    static final Set<String> ADDRESSES = new HashSet<>();

    @AfterAll
    static void theClassHadOneBroker(KafkaBroker broker) {
        assertEquals(Set.of(broker.bootstrapServers()), ADDRESSES);
    }

    @Test
    void thereIsNothingOfOtherTests(KafkaBroker broker) {
        ADDRESSES.add(broker.bootstrapServers());
        assertEquals(List.of(), broker.topics());
        broker.createTopic("left");
    }

    @Nested
    class Within {
        @Test
        void thereIsNothingOfOtherTestsHereEither(KafkaBroker broker) {
            thereIsNothingOfOtherTests(broker);
        }
    }

    @Test
    void aTestWhoseBrokerDidNotStartFailsForThatAlone() {
        Map<String, Object> answers = Map.of(
                "getExecutionException", Optional.of(new IllegalStateException("the broker did not start")),
                "getUniqueId", "a test");
        var context = (ExtensionContext) Proxy.newProxyInstance(
                ExtensionContext.class.getClassLoader(),
                new Class<?>[] {ExtensionContext.class},
                (proxy, method, arguments) -> answers.get(method.getName()));
        assertDoesNotThrow(() -> new KafkaBrokerExtension().afterEach(context));
    }

    @Test
    void withoutJUnitThereIsNoBroker() {
        assertThrows(IllegalStateException.class, new KafkaBrokerExtension()::broker);
    }
}
