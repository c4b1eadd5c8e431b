import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import kafka.api.ConsumerMetadataRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetFetchResponse;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;
import kafka.network.BlockingChannel;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** The clients of 0.8, on a topic of one partition: its producer in Scala, SimpleConsumer, offsets kept by the broker. */
public class Old {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1];
        String host = bootstrap.split(":")[0];
        int port = Integer.parseInt(bootstrap.split(":")[1]);
        for (String codec : new String[] {"none", "gzip", "snappy"}) produce(bootstrap, topic, codec);

        SimpleConsumer consumer = new SimpleConsumer(host, port, 20000, 1 << 20, "old");
        TopicAndPartition partition = new TopicAndPartition(topic, 0);
        PartitionOffsetRequestInfo latest = new PartitionOffsetRequestInfo(kafka.api.OffsetRequest.LatestTime(), 1);
        OffsetRequest asked = new OffsetRequest(Collections.singletonMap(partition, latest), kafka.api.OffsetRequest.CurrentVersion(), "old");
        long end = consumer.getOffsetsBefore(asked).offsets(topic, 0)[0], next = 0;
        int read = 0;
        while (next < end)
            for (MessageAndOffset message : fetch(consumer, topic, next).messageSet(topic, 0))
                if (message.offset() >= next) { // a compressed set comes as a whole
                    read++;
                    next = message.nextOffset();
                }
        System.out.println("read: " + read + " " + end + " " + fetch(consumer, topic, 99999).errorCode(topic, 0));
        consumer.close();
        System.out.println("committed: " + commit(host, port, topic, partition));
        System.exit(0);
    }

    private static void produce(String bootstrap, String topic, String codec) {
        Properties properties = new Properties();
        properties.put("metadata.broker.list", bootstrap);
        properties.put("serializer.class", "kafka.serializer.StringEncoder");
        properties.put("request.required.acks", "-1");
        properties.put("compression.codec", codec);
        kafka.javaapi.producer.Producer<String, String> producer = new kafka.javaapi.producer.Producer<>(new ProducerConfig(properties));
        List<KeyedMessage<String, String>> messages = new ArrayList<>();
        for (int i = 0; i < 100; i++) messages.add(new KeyedMessage<>(topic, "k", "v" + i));
        producer.send(messages);
        producer.close();
    }

    private static FetchResponse fetch(SimpleConsumer consumer, String topic, long offset) {
        return consumer.fetch(new FetchRequestBuilder().clientId("old").maxWait(200).addFetch(topic, 0, offset, 20000).build());
    }

    private static String commit(String host, int port, String topic, TopicAndPartition partition) throws Exception {
        int size = BlockingChannel.UseDefaultBufferSize();
        BlockingChannel channel = new BlockingChannel(host, port, size, size, 20000);
        channel.connect();
        short found = -1;
        while (found != 0) { // until the broker has made the topic for offsets
            channel.send(new ConsumerMetadataRequest(topic, (short) 0, 1, "old"));
            found = ConsumerMetadataResponse.readFrom(channel.receive().buffer()).errorCode();
        }
        OffsetAndMetadata offset = new OffsetAndMetadata(17, "m", System.currentTimeMillis());
        channel.send(new OffsetCommitRequest(topic, Collections.singletonMap(partition, offset), 2, "old", (short) 1).underlying());
        channel.receive();
        channel.send(new OffsetFetchRequest(topic, Collections.singletonList(partition), (short) 1, 3, "old").underlying());
        String said = OffsetFetchResponse.readFrom(channel.receive().buffer()).offsets().get(partition).toString();
        channel.disconnect();
        return said;
    }
}
