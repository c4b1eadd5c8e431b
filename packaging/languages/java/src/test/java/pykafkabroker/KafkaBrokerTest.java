package pykafkabroker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

class KafkaBrokerTest {
    @RegisterExtension
    static final KafkaBrokerExtension KAFKA =
            new KafkaBrokerExtension().topic("orders", 2).config("message.max.bytes", 100_000);

    @Test
    void aBrokerHasItsTopicsAlsoAfterAReset(KafkaBroker broker) {
        broker.produce("orders", List.of(NewRecord.value("apples")));
        broker.createTopic("payments", topic -> topic.partitions(3).config(Map.of("retention.ms", 1000)));
        broker.reset();
        var topics = broker.topics();
        assertEquals(List.of("orders 2"), topics.stream().map(each -> each.name() + " " + each.partitions()).toList());
        assertEquals(List.of(), broker.records("orders"));
    }

    @Test
    void recordsOfAllForms(KafkaBroker broker) {
        byte[] binary = {(byte) 0xff, 0};
        var first = NewRecord.of("17", Map.of("fruit", "apples"))
                .header("unit", "kg")
                .header("raw", binary)
                .timestamp(Instant.ofEpochMilli(1000))
                .partition(1);
        var written = broker.produce("orders", List.of(first, NewRecord.of(binary, null).partition(1)));
        assertEquals(new Answers.Written(1, 1), written.get(1));
        var records = broker.waitForRecords("orders", 2, options -> options.timeout(Duration.ofMinutes(1)));
        assertEquals("17", records.get(0).key());
        assertEquals("{\"fruit\":\"apples\"}", records.get(0).value());
        assertEquals(1000, records.get(0).timestamp());
        assertEquals(new TopicRecord.Header("unit", "kg", null), records.get(0).headers().get(0));
        assertArrayEquals(binary, records.get(0).headers().get(1).valueBytes());
        assertArrayEquals(binary, records.get(1).keyBytes());
        assertNull(records.get(1).key());
        assertNull(records.get(1).valueBytes());
        var expected = List.of(NewRecord.of("17", Map.of("fruit", "apples")), NewRecord.of(binary, null));
        assertEquals(records, broker.assertRecords("orders", expected));
        var wrong = assertThrows(
                AssertionError.class, () -> broker.assertContains("orders", List.of(NewRecord.value("pears"))));
        assertTrue(wrong.getMessage().contains("pears"), wrong::getMessage);
    }

    @Test
    void moreRecordsThanAPageHas(KafkaBroker broker) {
        for (int begin = 0; begin < 6000; begin += 2000) {
            broker.produce(
                    "orders",
                    IntStream.range(begin, begin + 2000)
                            .mapToObj(number -> NewRecord.value(number).partition(0))
                            .toList());
        }
        var values = broker.records("orders").stream().map(each -> Integer.valueOf(each.value())).toList();
        assertEquals(IntStream.range(0, 6000).boxed().toList(), values);
        assertEquals(7, broker.records("orders", options -> options.limit(7)).size());
        assertEquals(5999, broker.records("orders", options -> options.partition(0).fromOffset(1)).size());
        assertEquals(List.of(), broker.records("orders", options -> options.partition(1)));
    }

    @Test
    void aRecordOfAnIdempotentProducerIsWrittenOnce(KafkaBroker broker) {
        var made = broker.newProducer();
        var producer = new Answers.Producer(made.producerId(), made.producerEpoch(), Map.of("0", 0));
        for (int times = 0; times < 2; times++) {
            broker.produce("orders", List.of(NewRecord.value("apples").partition(0)), it -> it.producer(producer));
        }
        assertEquals(1, broker.records("orders").size());
    }

    @Test
    void aRefusalHasTheBrokersSentence(KafkaBroker broker) {
        var missing = assertThrows(ControlException.class, () -> broker.topic("nowhere"));
        assertEquals(404, missing.status());
        assertEquals("UNKNOWN_TOPIC_OR_PARTITION", missing.code());
        assertTrue(missing.getMessage().contains("nowhere"), missing::getMessage);
        var late = assertThrows(
                ControlException.class,
                () -> broker.waitForRecords("orders", 1, options -> options.timeout(Duration.ZERO)));
        assertEquals(408, late.status());
    }

    @Test
    void clockFaultsGroupsAndSeeds(KafkaBroker broker) {
        long before = broker.freezeClock().nowMs();
        assertEquals(before + 60_000, broker.advanceClock(Duration.ofMinutes(1)).nowMs());
        var fault = broker.addFault(each ->
                each.api("Fetch", "Produce").error("NOT_LEADER_OR_FOLLOWER").delay(Duration.ofSeconds(1)));
        var found = broker.fault(fault.id());
        assertEquals(List.of("Fetch", "Produce"), found.api());
        assertEquals(1000, found.delayMs());
        assertNull(found.topic());
        broker.commit("billing", "orders", 0);
        assertEquals(0L, broker.lag("billing").partitions().get(0).committed());
        var dumped = broker.dump();
        broker.reset();
        broker.deleteTopic("orders");
        assertEquals(1, broker.seed(dumped).offsets());
        assertEquals(List.of("billing"), broker.groups().stream().map(Answers.GroupSummary::groupId).toList());
        assertTrue(broker.metrics().startsWith("# HELP"));
        assertEquals(broker.broker(), new ControlClient(broker.controlUrl() + "/").broker());
    }

    @Test
    void aBrokerOfOnesOwnStops(@TempDir Path folder) {
        var history = folder.resolve("history");
        var broker = KafkaBroker.builder().emulate("2.8").history(history).schemaRegistry().logLevel("debug").start();
        try (broker) {
            assertTrue(broker.bootstrapServers().startsWith("127.0.0.1:"));
            assertTrue(broker.schemaRegistryUrl().startsWith("http://127.0.0.1:"));
            assertTrue(Files.exists(history));
            assertEquals("ok", broker.health().status());
        }
        assertThrows(UncheckedIOException.class, broker::health);
    }

    @Test
    void anUnknownConfigIsNamedOnStandardError() throws InterruptedException {
        var said = new ByteArrayOutputStream();
        var real = System.err;
        System.setErr(new PrintStream(said, true));
        try (var broker = KafkaBroker.builder().config("log.retention.mss", 1).start()) {
            while (!said.toString().contains("\n")) {
                Thread.sleep(10);
            }
        } finally {
            System.setErr(real);
        }
        assertTrue(
                said.toString().startsWith("pykafka_broker: unknown config log.retention.mss is ignored; did you mean"),
                said::toString);
    }

    @Test
    void aStartThatFailsTellsWhy() {
        var refused = Map.of(
                "num.partitions", KafkaBroker.builder().config("num.partitions", "many"),
                "no-such-program is not there: have", KafkaBroker.builder().command("no-such-program"),
                "no/topic", KafkaBroker.builder().topics("no/topic"));
        refused.forEach((why, options) -> {
            var error = assertThrows(RuntimeException.class, options::start);
            assertTrue(error.getMessage().contains(why), error::getMessage);
        });
    }

    @Test
    void aStartThatIsInterruptedTellsThat() {
        Thread.currentThread().interrupt();
        var error = assertThrows(IllegalStateException.class, KafkaBroker::start);
        assertTrue(Thread.interrupted());
        assertEquals("interrupted while the broker started", error.getMessage());
    }
}
