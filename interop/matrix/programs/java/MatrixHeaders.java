import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** Since 0.11. */
public class MatrixHeaders implements Matrix.Scenario {
    @Override
    public String run(String bootstrap, String topic) throws Exception {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<byte[], byte[]>(topic, 0, null, "v".getBytes());
        record.headers().add("one", "1".getBytes()).add("one", "again".getBytes()).add("empty", new byte[0]);
        Matrix.producer(bootstrap).send(record).get();
        StringBuilder found = new StringBuilder();
        for (Header header : Matrix.read(bootstrap, topic, 1).get(0).headers()) found.append(header.key()).append('=').append(new String(header.value())).append(' ');
        Matrix.same(found.toString(), "one=1 one=again empty= ");
        return null;
    }
}
