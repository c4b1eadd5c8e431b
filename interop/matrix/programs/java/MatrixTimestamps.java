import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Since 0.10. */
public class MatrixTimestamps implements Matrix.Scenario {
    static final long FIRST_MS = 1600000000000L;

    static void send(String bootstrap, String topic, int count, long step) throws Exception {
        KafkaProducer<byte[], byte[]> producer = Matrix.producer(bootstrap);
        for (int i = 0; i < count; i++) producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, FIRST_MS + i * step, null, ("" + i).getBytes())).get();
    }

    @Override
    public String run(String bootstrap, String topic) throws Exception {
        send(bootstrap, topic, 5, 1);
        List<ConsumerRecord<byte[], byte[]>> found = Matrix.read(bootstrap, topic, 5);
        for (int i = 0; i < 5; i++) Matrix.same(found.get(i).timestamp(), FIRST_MS + i);
        return null;
    }
}
