package pykafkabroker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A broker for each test, from a field that is not static. */
class OwnBrokerTest {
    static final Set<String> ADDRESSES = new HashSet<>();

    @RegisterExtension
    final KafkaBrokerExtension own = new KafkaBrokerExtension().topics("mine");

    @AfterAll
    static void eachTestHadOne() {
        assertEquals(2, ADDRESSES.size());
    }

    @RepeatedTest(2)
    void itHasItsTopics(KafkaBroker broker) {
        ADDRESSES.add(broker.controlUrl());
        assertEquals(List.of("mine"), own.broker().topics().stream().map(Answers.Topic::name).toList());
    }
}
