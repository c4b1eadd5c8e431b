import java.util.Collections;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What came with 0.11: transactions with headers and offsets in them, and a producer that is fenced. */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        TopicPartition partition = new TopicPartition(topic, 0);
        KafkaProducer<String, String> producer = Clients.producer(bootstrap, "transactional.id", topic);
        producer.initTransactions();
        for (int i = 0; i < 4; i++) {
            producer.beginTransaction();
            ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, "k", "" + i);
            record.headers().add("h", new byte[] {1});
            producer.send(record);
            producer.send(record).get(); // or an abort would take back what was never sent
            sendOffsets(producer, Collections.singletonMap(partition, new OffsetAndMetadata(i * 10)), topic);
            if (i % 2 == 0) producer.commitTransaction();
            else producer.abortTransaction();
        }
        System.out.println("transactions: " + read(bootstrap, partition, "read_committed") + read(bootstrap, partition, "read_uncommitted") + committed(bootstrap, partition));
        KafkaProducer<String, String> next = Clients.producer(bootstrap, "transactional.id", topic);
        next.initTransactions();
        String fenced = "no";
        try {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "late")).get();
        } catch (Exception refusal) {
            fenced = "yes";
        }
        next.close();
        System.out.println("fenced: " + fenced);
        System.exit(0);
    }

    private static void sendOffsets(KafkaProducer<String, String> producer, Map<?, ?> offsets, String group) throws Exception {
        try {
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class).invoke(producer, offsets, group);
        } catch (NoSuchMethodException since4) {
            Class<?> metadata = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            Object of = metadata.getConstructor(String.class).newInstance(group);
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, metadata).invoke(producer, offsets, of);
        }
    }

    private static String read(String bootstrap, TopicPartition partition, String level) throws Exception {
        StringBuilder said = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = Clients.consumer(bootstrap, partition.topic(), "isolation.level", level)) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            long end = consumer.endOffsets(Collections.singletonList(partition)).get(partition);
            while (consumer.position(partition) < end)
                for (ConsumerRecord<String, String> record : Clients.poll(consumer, 100)) said.append(record.value()).append('@').append(record.offset()).append(' ');
        }
        return said + "| ";
    }

    private static long committed(String bootstrap, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = Clients.consumer(bootstrap, partition.topic())) {
            consumer.assign(Collections.singletonList(partition));
            return consumer.position(partition);
        }
    }
}
