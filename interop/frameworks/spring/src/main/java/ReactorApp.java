import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import reactor.core.publisher.Flux;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.sender.KafkaSender;
import reactor.kafka.sender.SenderOptions;
import reactor.kafka.sender.SenderRecord;

/** Copies a topic exactly once, and reads the copy. */
public class ReactorApp {
    static final int RECORDS = 1000;

    public static void main(String[] arguments) {
        Map<String, Object> servers = Map.of("bootstrap.servers", arguments[0]);
        var sending = SenderOptions.<String, String>create(servers)
            .withKeySerializer(new StringSerializer()).withValueSerializer(new StringSerializer());
        var sender = KafkaSender.create(sending);
        sender.send(Flux.range(0, RECORDS)
                .map(number -> SenderRecord.create(new ProducerRecord<>("reactor-in", "" + number, "v" + number), number)))
            .blockLast(Duration.ofSeconds(60));
        var copier = KafkaSender.create(sending.producerProperty("transactional.id", "reactor"));
        var reading = ReceiverOptions.<String, String>create(servers)
            .withKeyDeserializer(new StringDeserializer()).withValueDeserializer(new StringDeserializer())
            .consumerProperty("auto.offset.reset", "earliest").consumerProperty("isolation.level", "read_committed");
        var copying = KafkaReceiver.create(
                reading.consumerProperty("group.id", "reactor-copy").subscription(List.of("reactor-in")))
            .receiveExactlyOnce(copier.transactionManager())
            .concatMap(batch -> copier.send(batch.map(record -> SenderRecord.create(
                    new ProducerRecord<>("reactor-out", record.key(), record.value()), record.key())))
                .concatWith(copier.transactionManager().commit()))
            .subscribe();
        var count = new AtomicInteger();
        long different = KafkaReceiver.create(
                reading.consumerProperty("group.id", "reactor-read").subscription(List.of("reactor-out")))
            .receive()
            .map(record -> {
                record.receiverOffset().acknowledge();
                count.incrementAndGet();
                return record.value();
            })
            .distinct().take(RECORDS).count().block(Duration.ofSeconds(120));
        System.out.printf("{\"read\": %d, \"different\": %d}%n", count.get(), different);
        copying.dispose();
        System.exit(0);
    }
}
