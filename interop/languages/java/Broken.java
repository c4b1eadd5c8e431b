import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** An application from `orders` to `billed`: BOOTSTRAP NAME right|wrong ORDERS; interop/broken_programs.py says which. */
public class Broken {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        boolean right = arguments[2].equals("right");
        int orders = Integer.parseInt(arguments[3]);
        switch (arguments[1]) {
            case "commits_first" -> commitsFirst(right, orders);
            case "retries_without_idempotence" -> billAll(orders, "read_uncommitted", right);
            case "swallows_errors" -> swallowsErrors(right, orders);
            case "reads_uncommitted" -> billAll(orders, right ? "read_committed" : "read_uncommitted", true);
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.exit(0);
    }

    private static void commitsFirst(boolean right, int orders) throws Exception {
        KafkaProducer<String, String> biller = biller(true);
        int left = orders;
        try (Orders first = new Orders("first", "read_uncommitted")) {
            for (int taken = 0; taken < orders / 2; taken++) {
                ConsumerRecord<String, String> order = first.next();
                if (!right) first.commit(order);
                if (taken == orders / 2 - 1) {
                    left -= right ? taken : taken + 1;
                    break; // the crash
                }
                bill(biller, order).get();
                if (right) first.commit(order);
            }
        }
        try (Orders second = new Orders("second", "read_uncommitted")) {
            for (; left > 0; left--) {
                ConsumerRecord<String, String> order = second.next();
                bill(biller, order).get();
                second.commit(order);
            }
        }
    }

    private static void billAll(int orders, String level, boolean idempotent) throws Exception {
        KafkaProducer<String, String> biller = biller(idempotent);
        try (Orders reader = new Orders("reader", level)) {
            for (int taken = 0; taken < orders; taken++) {
                ConsumerRecord<String, String> order = reader.next();
                bill(biller, order).get();
                reader.commit(order);
            }
        }
    }

    private static void swallowsErrors(boolean right, int orders) throws Exception {
        KafkaProducer<String, String> biller = biller(false);
        try (Orders reader = new Orders("reader", "read_uncommitted")) {
            for (int taken = 0; taken < orders; taken++) {
                ConsumerRecord<String, String> order = reader.next();
                for (boolean billed = false; !billed; ) {
                    Future<?> sent = bill(biller, order);
                    biller.flush();
                    billed = !right; // nobody looks at the future
                    if (right)
                        try {
                            sent.get();
                            billed = true;
                        } catch (java.util.concurrent.ExecutionException refused) {
                            billed = false;
                        }
                }
                reader.commit(order);
            }
        }
    }

    private static KafkaProducer<String, String> biller(boolean idempotent) {
        return Clients.producer(bootstrap, "client.id", "biller", "enable.idempotence", "" + idempotent, "linger.ms", "0", "retry.backoff.ms", "1");
    }

    private static Future<?> bill(KafkaProducer<String, String> biller, ConsumerRecord<String, String> order) {
        return biller.send(new ProducerRecord<>("billed", 0, order.key(), "paid"));
    }

    /** The orders, one by one. */
    private static final class Orders implements AutoCloseable {
        private final KafkaConsumer<String, String> consumer;
        private final List<ConsumerRecord<String, String>> taken = new ArrayList<>();

        Orders(String name, String level) {
            consumer = Clients.consumer(bootstrap, "billing", "client.id", name, "isolation.level", level, "max.poll.records", "1");
            consumer.subscribe(Collections.singletonList("orders"));
        }

        ConsumerRecord<String, String> next() {
            while (taken.isEmpty()) consumer.poll(Duration.ofSeconds(1)).forEach(taken::add);
            return taken.remove(0);
        }

        void commit(ConsumerRecord<String, String> order) {
            consumer.commitSync(Collections.singletonMap(ORDERS, new OffsetAndMetadata(order.offset() + 1)));
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
