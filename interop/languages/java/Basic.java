import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** What every release since 0.9 can do, on a topic of four partitions: codecs, a group of two, seeking, commits. */
public class Basic {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        String[] codecs = arguments[2].split(",");
        for (String codec : codecs) produce(bootstrap, topic, codec);

        Member first = new Member(bootstrap, topic, true);
        first.settle(4, null, 0);
        first.reads(200 * codecs.length);
        Member second = new Member(bootstrap, topic, false);
        first.settle(2, second, 2);
        first.end();
        second.settle(4, null, 0);
        second.end();
        System.out.println("group: " + first.read);

        KafkaConsumer<String, String> consumer = second.consumer;
        TopicPartition partition = new TopicPartition(topic, 0);
        Clients.seekToBeginning(consumer, partition);
        long position = consumer.position(partition);
        consumer.seek(partition, 9999999);
        while (consumer.position(partition) == 9999999) Clients.poll(consumer, 100);
        consumer.commitSync(Collections.singletonMap(partition, new OffsetAndMetadata(7, "m")));
        consumer.close();
        KafkaConsumer<String, String> later = Clients.consumer(bootstrap, topic);
        later.assign(Collections.singletonList(partition));
        System.out.println("offsets: " + position + " " + later.position(partition) + " " + later.listTopics().containsKey(topic));
        later.close();
    }

    private static void produce(String bootstrap, String topic, String codec) throws Exception {
        KafkaProducer<String, String> producer = Clients.producer(bootstrap, "compression.type", codec);
        List<Future<?>> sent = new ArrayList<Future<?>>();
        for (int i = 0; i < 200; i++) sent.add(producer.send(new ProducerRecord<String, String>(topic, i % 4, "k" + i, "v" + i)));
        for (Future<?> future : sent) future.get();
        producer.close();
    }

    /** In a thread of its own: before 2.0 a poll waits until the whole group has joined. */
    private static final class Member extends Thread {
        final KafkaConsumer<String, String> consumer;
        volatile int read, assigned;
        private final boolean leaves;
        private volatile boolean ending;

        Member(String bootstrap, String topic, boolean leaves) {
            this.leaves = leaves;
            consumer = Clients.consumer(bootstrap, topic);
            consumer.subscribe(Collections.singletonList(topic));
            setDaemon(true); // a failure elsewhere ends the program
            start();
        }

        @Override
        public void run() {
            try {
                while (!ending) {
                    read += Clients.poll(consumer, 50).count();
                    consumer.commitSync();
                    assigned = consumer.assignment().size();
                }
                if (leaves) consumer.close();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }

        void settle(int mine, Member other, int theirs) throws Exception {
            await(() -> assigned == mine && (other == null || other.assigned == theirs));
        }

        void reads(int count) throws Exception {
            await(() -> read >= count);
        }

        private static void await(java.util.concurrent.Callable<Boolean> condition) throws Exception {
            for (long end = System.currentTimeMillis() + 60000; !condition.call(); Thread.sleep(20))
                if (System.currentTimeMillis() > end) throw new IllegalStateException("not within a minute");
        }

        void end() throws Exception {
            ending = true;
            join();
        }
    }
}
