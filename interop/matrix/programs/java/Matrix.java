import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Kafka's own clients since 0.9. What came later stands in classes of its own, which an older release does not compile. */
public class Matrix {
    static final int COUNT = 100;

    static final class NotSupported extends Exception {
        NotSupported(String why) {
            super(why);
        }
    }

    interface Scenario {
        String run(String bootstrap, String topic) throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    public static void main(String[] arguments) {
        int status = 0;
        try {
            String said = scenario(arguments[0]).run(arguments[1], arguments[2]);
            if (said != null) System.out.println(said);
        } catch (NotSupported why) {
            System.out.println(why.getMessage());
            status = 77;
        } catch (Throwable failure) {
            failure.printStackTrace();
            status = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(status);
    }

    private static Scenario scenario(String name) throws Exception {
        switch (name) {
            case "connect": return Matrix::connect;
            case "produce": return (bootstrap, topic) -> thereAndBack(bootstrap, topic);
            case "records": return Matrix::records;
            case "codecs": return Matrix::codecs;
            case "idempotent": return Matrix::idempotent;
            case "group": return (bootstrap, topic) -> group(bootstrap, topic, "session.timeout.ms", "10000", "heartbeat.interval.ms", "300");
            case "next_group": return Matrix::nextGroup;
            case "commit": return Matrix::commit;
            case "large": return Matrix::large;
            case "security": return Matrix::security;
            case "restart": return Matrix::restart;
            default:
        }
        try {
            return (Scenario) Class.forName("Matrix" + name.substring(0, 1).toUpperCase() + name.substring(1)).getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException | NoClassDefFoundError older) {
            throw new NotSupported("the client has no " + name);
        }
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String... more) {
        Map<String, Object> settings = settings(bootstrap, more, "acks", "all", "linger.ms", "5");
        return new KafkaProducer<byte[], byte[]>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, String... more) {
        Map<String, Object> settings = settings(bootstrap, more, "group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<byte[], byte[]>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Map<String, Object> settings(String bootstrap, String[] more, String... always) {
        Map<String, Object> settings = new HashMap<String, Object>();
        settings.put("bootstrap.servers", bootstrap);
        for (String[] pairs : new String[][] {always, more}) for (int i = 0; i < pairs.length; i += 2) settings.put(pairs[i], pairs[i + 1]);
        return settings;
    }

    /** What differs between releases is found by `Clients`, whose types are those of text. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static Iterable<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, long ms) throws Exception {
        return (Iterable) Clients.poll((KafkaConsumer) consumer, ms);
    }

    static List<byte[]> values(int from, int to) {
        List<byte[]> values = new ArrayList<byte[]>();
        for (int i = from; i < to; i++) values.add(("value " + i).getBytes());
        return values;
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, List<byte[]> values) throws Exception {
        List<Future<?>> sent = new ArrayList<Future<?>>();
        for (byte[] value : values) sent.add(producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, "k".getBytes(), value)));
        for (Future<?> future : sent) future.get();
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String bootstrap, String topic, int count, String... more) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, topic + "-reader", more);
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(Collections.singletonList(partition));
        consumer.seek(partition, 0);
        List<ConsumerRecord<byte[], byte[]>> found = take(consumer, count);
        consumer.close();
        return found;
    }

    static List<ConsumerRecord<byte[], byte[]>> take(KafkaConsumer<byte[], byte[]> consumer, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<ConsumerRecord<byte[], byte[]>>();
        for (long end = System.currentTimeMillis() + 20000; found.size() < count && System.currentTimeMillis() < end; )
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer, 200)) found.add(record);
        same(found.size(), count);
        return found;
    }

    static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        List<String> texts = new ArrayList<String>();
        for (ConsumerRecord<byte[], byte[]> record : records) texts.add(new String(record.value()));
        return texts;
    }

    static List<String> texts(Iterable<byte[]> values) {
        List<String> texts = new ArrayList<String>();
        for (byte[] value : values) texts.add(new String(value));
        return texts;
    }

    static void same(Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError("found " + shortened(found) + ", not " + shortened(wanted));
    }

    private static String shortened(Object value) {
        String text = String.valueOf(value);
        return text.length() < 300 ? text : text.substring(0, 300);
    }

    static void until(Condition condition, String what) throws Exception {
        for (long end = System.currentTimeMillis() + 40000; !condition.holds(); Thread.sleep(20))
            if (System.currentTimeMillis() > end) throw new AssertionError("not within 40 s: " + what);
    }

    private static String connect(String bootstrap, String topic) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, topic);
        same(consumer.partitionsFor(topic).size(), 4);
        same(consumer.listTopics().containsKey(topic), true);
        return null;
    }

    private static String thereAndBack(String bootstrap, String topic, String... more) throws Exception {
        send(producer(bootstrap, more), topic, values(0, COUNT));
        same(texts(read(bootstrap, topic, COUNT)), texts(values(0, COUNT)));
        return null;
    }

    private static String records(String bootstrap, String topic) throws Exception {
        byte[][][] records = {{"key".getBytes(), "value".getBytes()}, {null, "no key".getBytes()}, {"gone".getBytes(), null}, {"empty".getBytes(), {}}, {{0, -1}, new byte[100]}};
        KafkaProducer<byte[], byte[]> producer = producer(bootstrap);
        for (byte[][] record : records) producer.send(new ProducerRecord<byte[], byte[]>(topic, 0, record[0], record[1])).get();
        List<ConsumerRecord<byte[], byte[]>> found = read(bootstrap, topic, records.length);
        for (int i = 0; i < records.length; i++) {
            same(Arrays.equals(found.get(i).key(), records[i][0]), true);
            same(Arrays.equals(found.get(i).value(), records[i][1]), true);
        }
        return null;
    }

    private static String codecs(String bootstrap, String topic) throws Exception {
        List<byte[]> sent = new ArrayList<byte[]>();
        List<String> said = new ArrayList<String>();
        for (String codec : new String[] {"gzip", "snappy", "lz4", "zstd"}) {
            boolean zstd = codec.equals("zstd");
            String release = System.getenv("MATRIX_RELEASE");
            if (zstd && (release.startsWith("0.") || release.startsWith("1.") || release.equals("2.0"))) continue;
            try {
                KafkaProducer<byte[], byte[]> producer = producer(bootstrap, "compression.type", codec);
                send(producer, topic, values(0, COUNT));
            } catch (RuntimeException none) {
                if (!zstd) throw none;
                said.add("zstd: not in this release");
                continue;
            }
            sent.addAll(values(0, COUNT));
            same(texts(read(bootstrap, topic, sent.size())), texts(sent));
            said.add(codec);
        }
        return String.join(", ", said);
    }

    private static String idempotent(String bootstrap, String topic) throws Exception {
        try {
            Class.forName("org.apache.kafka.clients.producer.ProducerConfig").getField("ENABLE_IDEMPOTENCE_CONFIG");
        } catch (NoSuchFieldException older) {
            throw new NotSupported("the client has no idempotent producer");
        }
        return thereAndBack(bootstrap, topic, "enable.idempotence", "true");
    }

    private static final class Member extends Thread {
        volatile int partitions = -1;
        private volatile boolean ending;
        private final KafkaConsumer<byte[], byte[]> consumer;

        Member(String bootstrap, String topic, String[] more) {
            consumer = consumer(bootstrap, topic, more);
            consumer.subscribe(Collections.singletonList(topic));
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try {
                while (!ending) {
                    poll(consumer, 50);
                    partitions = consumer.assignment().size();
                }
                consumer.close();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }

        void leave() throws Exception {
            ending = true;
            join();
        }
    }

    private static String group(String bootstrap, String topic, String... more) throws Exception {
        Member first = new Member(bootstrap, topic, more);
        until(() -> first.partitions == 4, "the first member has four partitions");
        Member second = new Member(bootstrap, topic, more);
        until(() -> first.partitions == 2 && second.partitions == 2, "two partitions each");
        first.leave();
        until(() -> second.partitions == 4, "the second member has four partitions");
        second.leave();
        return null;
    }

    private static String nextGroup(String bootstrap, String topic) throws Exception {
        try {
            Class.forName("org.apache.kafka.clients.consumer.ConsumerConfig").getField("GROUP_PROTOCOL_CONFIG");
        } catch (NoSuchFieldException older) {
            throw new NotSupported("the client has no KIP-848 groups");
        }
        return group(bootstrap, topic, "group.protocol", "consumer");
    }

    private static String commit(String bootstrap, String topic) throws Exception {
        send(producer(bootstrap), topic, values(0, COUNT));
        KafkaConsumer<byte[], byte[]> first = consumer(bootstrap, topic);
        first.subscribe(Collections.singletonList(topic));
        take(first, COUNT);
        first.commitSync(Collections.singletonMap(new TopicPartition(topic, 0), new OffsetAndMetadata(30, "")));
        first.close();
        KafkaConsumer<byte[], byte[]> later = consumer(bootstrap, topic);
        later.subscribe(Collections.singletonList(topic));
        same(texts(take(later, COUNT - 30)), texts(values(30, COUNT)));
        later.close();
        return null;
    }

    private static String large(String bootstrap, String topic) throws Exception {
        List<byte[]> values = new ArrayList<byte[]>();
        for (int i = 0; i < 5; i++) {
            values.add(new byte[900000]);
            Arrays.fill(values.get(i), (byte) (65 + i));
        }
        send(producer(bootstrap), topic, values);
        same(texts(read(bootstrap, topic, 5)).equals(texts(values)), true);
        return null;
    }

    private static String security(String bootstrap, String topic) throws Exception {
        String login = "org.apache.kafka.common.security.scram.ScramLoginModule";
        try {
            Class.forName(login);
        } catch (ClassNotFoundException older) {
            throw new NotSupported("the client has no SCRAM");
        }
        String account = " required username=\"" + System.getenv("MATRIX_USER") + "\" password=\"" + System.getenv("MATRIX_PASSWORD") + "\";";
        String[] secure = {
            "security.protocol", "SASL_SSL", "sasl.mechanism", "SCRAM-SHA-512", "sasl.jaas.config", login + account,
            "ssl.truststore.type", "JKS", "ssl.truststore.location", trustStore(), "ssl.truststore.password", "secret"
        };
        send(producer(bootstrap, secure), topic, values(0, COUNT));
        same(texts(read(bootstrap, topic, COUNT, secure)), texts(values(0, COUNT)));
        return null;
    }

    /** Older releases know no PEM. */
    private static String trustStore() throws Exception {
        KeyStore store = KeyStore.getInstance("JKS");
        store.load(null, null);
        try (FileInputStream pem = new FileInputStream(System.getenv("MATRIX_CA"))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        java.io.File file = java.io.File.createTempFile("trust", ".jks");
        file.deleteOnExit();
        try (FileOutputStream out = new FileOutputStream(file)) {
            store.store(out, "secret".toCharArray());
        }
        return file.getPath();
    }

    private static String restart(String bootstrap, String topic) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(bootstrap, "retries", "1000");
        KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, topic);
        consumer.subscribe(Collections.singletonList(topic));
        send(producer, topic, values(0, 50));
        Set<String> found = new TreeSet<String>(texts(take(consumer, 50)));
        System.out.println("restart");
        System.out.flush();
        System.in.read();
        send(producer, topic, values(50, COUNT));
        until(() -> {
            for (ConsumerRecord<byte[], byte[]> record : poll(consumer, 200)) found.add(new String(record.value()));
            return found.size() == COUNT;
        }, "all records");
        return null;
    }
}
