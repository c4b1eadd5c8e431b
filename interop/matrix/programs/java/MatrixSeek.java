import java.util.Collections;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;

/** Since 0.10.1. */
public class MatrixSeek implements Matrix.Scenario {
    @Override
    public String run(String bootstrap, String topic) throws Exception {
        MatrixTimestamps.send(bootstrap, topic, 10, 1000);
        KafkaConsumer<byte[], byte[]> consumer = Matrix.consumer(bootstrap, topic);
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(Collections.singletonList(partition));
        Matrix.same(at(consumer, partition, 4500).offset(), 5L);
        Matrix.same(at(consumer, partition, 99000) == null, true);
        Matrix.same(consumer.beginningOffsets(Collections.singletonList(partition)).get(partition), 0L);
        Matrix.same(consumer.endOffsets(Collections.singletonList(partition)).get(partition), 10L);
        consumer.seek(partition, 5);
        Matrix.same(new String(Matrix.take(consumer, 5).get(0).value()), "5");
        return null;
    }

    private static OffsetAndTimestamp at(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long ms) {
        return consumer.offsetsForTimes(Collections.singletonMap(partition, MatrixTimestamps.FIRST_MS + ms)).get(partition);
    }
}
