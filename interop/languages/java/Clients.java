import java.lang.reflect.Method;
import java.util.Collection;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** What differs between the releases of Kafka's clients from 0.9 to 4: found by name when the program runs. */
final class Clients {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";
    private static final Method POLL = poll();

    private Clients() {}

    static KafkaProducer<String, String> producer(String bootstrap, String... settings) {
        String[] both = {"acks", "all", "linger.ms", "5", "key.serializer", STRINGS + "Serializer", "value.serializer", STRINGS + "Serializer"};
        return new KafkaProducer<String, String>(properties(bootstrap, both, settings));
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group, String... settings) {
        String[] always = {
            "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false", "session.timeout.ms", "30000",
            "heartbeat.interval.ms", "300", "key.deserializer", STRINGS + "Deserializer", "value.deserializer", STRINGS + "Deserializer"
        };
        return new KafkaConsumer<String, String>(properties(bootstrap, always, settings));
    }

    static Properties properties(String bootstrap, String[]... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String[] pairs : settings) for (int i = 0; i < pairs.length; i += 2) properties.put(pairs[i], pairs[i + 1]);
        return properties;
    }

    private static Method poll() {
        for (Method method : KafkaConsumer.class.getMethods())
            if (method.getName().equals("poll") && method.getParameterTypes()[0] != long.class) return method; // since 2.0
        for (Method method : KafkaConsumer.class.getMethods()) if (method.getName().equals("poll")) return method;
        throw new IllegalStateException("a consumer that does not poll");
    }

    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, long ms) throws Exception {
        Object patience = POLL.getParameterTypes()[0] == long.class ? (Object) ms : java.time.Duration.ofMillis(ms);
        return (ConsumerRecords<String, String>) POLL.invoke(consumer, patience);
    }

    static void seekToBeginning(KafkaConsumer<String, String> consumer, TopicPartition partition) throws Exception {
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (!method.getName().equals("seekToBeginning")) continue;
            boolean several = method.getParameterTypes()[0] == Collection.class; // since 0.10
            method.invoke(consumer, several ? (Object) Collections.singletonList(partition) : new TopicPartition[] {partition});
        }
    }
}
