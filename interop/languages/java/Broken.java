import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Applications from `orders` to `billed`, one for each line BOOTSTRAP NAME right|wrong; interop/broken_programs.py says which. */
public class Broken {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            String end = "done";
            try {
                work(words[0], words[1], words[2].equals("right"));
            } catch (Exception error) {
                end = "failed " + error.toString().replace('\n', ' ');
            }
            System.out.println(end);
        }
    }

    private static void work(String bootstrap, String name, boolean right) throws Exception {
        boolean commitsFirst = !right && name.equals("commits_first");
        boolean looksAway = !right && name.equals("swallows_errors");
        String level = !right && name.equals("reads_uncommitted") ? "read_uncommitted" : "read_committed";
        try (KafkaProducer<String, String> biller = biller(bootstrap, name, right);
            KafkaConsumer<String, String> reader =
                Clients.consumer(bootstrap, "billing", "client.id", "reader", "isolation.level", level, "retry.backoff.ms", "1")) {
            reader.subscribe(Collections.singletonList("orders"));
            while (true)
                for (ConsumerRecord<String, String> order : reader.poll(Duration.ofSeconds(1))) {
                    if (commitsFirst) commit(reader, order);
                    Future<?> sent = biller.send(new ProducerRecord<>("billed", 0, order.key(), "paid"));
                    biller.flush();
                    if (!looksAway) sent.get();
                    if (!commitsFirst) commit(reader, order);
                    if (order.key().equals("last")) return;
                }
        }
    }

    private static KafkaProducer<String, String> biller(String bootstrap, String name, boolean right) {
        boolean once = name.equals("commits_first") || name.equals("swallows_errors");
        boolean idempotent = !once && (right || !name.equals("retries_without_idempotence"));
        return Clients.producer(
            bootstrap, "client.id", "biller", "enable.idempotence", "" + idempotent, "retries", once ? "0" : "100", "retry.backoff.ms", "1");
    }

    private static void commit(KafkaConsumer<String, String> reader, ConsumerRecord<String, String> order) {
        TopicPartition place = new TopicPartition(order.topic(), order.partition());
        reader.commitSync(Collections.singletonMap(place, new OffsetAndMetadata(order.offset() + 1)));
    }
}
