import java.util.Arrays;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Since 0.11. */
public class MatrixTransactions implements Matrix.Scenario {
    @Override
    public String run(String bootstrap, String topic) throws Exception {
        KafkaProducer<byte[], byte[]> producer = Matrix.producer(bootstrap, "transactional.id", topic);
        producer.initTransactions();
        for (int i = 0; i < 4; i++) {
            producer.beginTransaction();
            for (int twice = 0; twice < 2; twice++) producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, null, ("" + i).getBytes())).get();
            if (i % 2 == 0) producer.commitTransaction();
            else producer.abortTransaction();
        }
        Matrix.same(Matrix.texts(Matrix.read(bootstrap, topic, 8)), Arrays.asList("0", "0", "1", "1", "2", "2", "3", "3"));
        Matrix.same(Matrix.texts(Matrix.read(bootstrap, topic, 4, "isolation.level", "read_committed")), Arrays.asList("0", "0", "2", "2"));
        return null;
    }
}
