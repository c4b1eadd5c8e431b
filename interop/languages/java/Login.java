import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A client that logs in: what it writes it reads back. Arguments after the topic are settings, name and value. */
public class Login {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        String[] settings = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
        try {
            KafkaProducer<String, String> producer = Clients.producer(bootstrap, settings);
            for (int i = 0; i < 10; i++) {
                Future<?> sent = producer.send(new ProducerRecord<String, String>(topic, "v" + i));
                sent.get();
            }
            producer.close();
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println("refused: " + cause.getClass().getSimpleName());
            System.exit(0);
        }
        KafkaConsumer<String, String> consumer = Clients.consumer(bootstrap, topic, settings);
        consumer.subscribe(java.util.Collections.singletonList(topic));
        int read = 0;
        while (read < 10) read += Clients.poll(consumer, 200).count();
        consumer.close();
        System.out.println("read: " + read);
        System.exit(0);
    }
}
