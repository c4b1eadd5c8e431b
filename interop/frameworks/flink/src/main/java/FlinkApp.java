import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies a topic exactly once, with checkpoints; the job fails in the middle and goes on from the last one. */
public class FlinkApp {
    static final int RECORDS = 3000;

    public static class FailsOnce implements MapFunction<String, String> {
        static volatile boolean failed = false;
        static volatile int count = 0;

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(1);
            if (++count >= RECORDS / 2 && !failed) {
                failed = true;
                throw new IllegalStateException("on purpose");
            }
            return value;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], naming = arguments[1], from = "flink-in-" + naming, to = "flink-out-" + naming;
        try (var admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(from, 3, (short) 1), new NewTopic(to, 3, (short) 1))).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(from, "" + number, "v" + number));
            }
        }
        var configuration = new Configuration();
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "3");
        configuration.setString("restart-strategy.fixed-delay.delay", "500ms");
        var environment = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        environment.enableCheckpointing(300);
        var source = KafkaSource.<String>builder()
            .setBootstrapServers(servers).setTopics(from).setGroupId("flink-" + naming)
            .setStartingOffsets(OffsetsInitializer.earliest()).setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema()).build();
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(servers)
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(to).setValueSerializationSchema(new SimpleStringSchema()).build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(naming))
            .setTransactionalIdPrefix("flink-" + naming)
            .setProperty("transaction.timeout.ms", "60000").build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in").map(new FailsOnce()).sinkTo(sink);
        environment.execute();
        List<String> found = read(servers, to);
        System.out.printf("{\"failed\": %b, \"read\": %d, \"different\": %d}%n",
            FailsOnce.failed, found.size(), new HashSet<>(found).size());
        System.exit(0);
    }

    static List<String> read(String servers, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", "read-" + topic,
            "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        var found = new ArrayList<String>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + 30_000;
            while (found.size() < RECORDS && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> found.add(record.value()));
            }
            for (int more = 0; more < 4; more++) { // nothing comes twice
                consumer.poll(Duration.ofMillis(500)).forEach(record -> found.add(record.value()));
            }
        }
        return found;
    }
}
