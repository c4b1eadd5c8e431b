import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.ArrayList;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.DltHandler;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.requestreply.ReplyingKafkaTemplate;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.FixedBackOff;

/** Listeners with retry topics and a dead letter topic, a copier in transactions that fails at times, and a reply. */
public class SpringApp {
    static String servers;
    static final Map<String, Integer> tries = new ConcurrentHashMap<>();
    static final List<String> done = Collections.synchronizedList(new ArrayList<>());
    static final List<String> dead = Collections.synchronizedList(new ArrayList<>());
    static final List<String> copied = Collections.synchronizedList(new ArrayList<>());

    @Configuration
    @EnableKafka
    @EnableKafkaRetryTopic
    public static class Config {
        @Bean
        TaskScheduler scheduler() {
            return new ThreadPoolTaskScheduler();
        }

        @Bean
        KafkaAdmin admin() {
            return new KafkaAdmin(Map.of("bootstrap.servers", servers));
        }

        @Bean
        KafkaAdmin.NewTopics topics() {
            return new KafkaAdmin.NewTopics(
                TopicBuilder.name("orders").partitions(3).build(),
                TopicBuilder.name("copied-from").partitions(2).build(),
                TopicBuilder.name("copied-to").partitions(2).build(),
                TopicBuilder.name("questions").build(),
                TopicBuilder.name("answers").build());
        }

        static DefaultKafkaProducerFactory<String, String> producers() {
            return new DefaultKafkaProducerFactory<>(
                Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer());
        }

        @Bean
        ProducerFactory<String, String> producerFactory() {
            return producers();
        }

        @Bean
        KafkaTemplate<String, String> template() {
            return new KafkaTemplate<>(producerFactory());
        }

        @Bean
        KafkaTemplate<String, String> transactional() {
            var factory = producers();
            factory.setTransactionIdPrefix("copier-");
            return new KafkaTemplate<>(factory);
        }

        @Bean
        ConsumerFactory<String, String> consumerFactory() {
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", servers, "auto.offset.reset", "earliest", "isolation.level", "read_committed");
            return new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        @Bean
        ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
            var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
            factory.setConsumerFactory(consumerFactory());
            factory.setConcurrency(3);
            factory.setReplyTemplate(template());
            return factory;
        }

        @Bean
        ConcurrentKafkaListenerContainerFactory<String, String> inTransactions(
                @Qualifier("transactional") KafkaTemplate<String, String> transactional) {
            var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
            factory.setConsumerFactory(consumerFactory());
            factory.getContainerProperties().setKafkaAwareTransactionManager(
                new KafkaTransactionManager<>(transactional.getProducerFactory()));
            factory.setAfterRollbackProcessor(new DefaultAfterRollbackProcessor<>(new FixedBackOff(50, 5)));
            return factory;
        }

        @Bean
        ReplyingKafkaTemplate<String, String, String> replying() {
            var properties = new ContainerProperties("answers");
            properties.setGroupId("asking");
            var container = new ConcurrentMessageListenerContainer<String, String>(consumerFactory(), properties);
            return new ReplyingKafkaTemplate<>(producerFactory(), container);
        }

        @Bean
        Listeners listeners() {
            return new Listeners();
        }
    }

    public static class Listeners {
        @Autowired
        @Qualifier("transactional")
        KafkaTemplate<String, String> transactional;

        @RetryableTopic(attempts = "3", backOff = @BackOff(delay = 200), kafkaTemplate = "template")
        @KafkaListener(id = "orders", topics = "orders")
        public void order(String value) {
            int tried = tries.merge(value, 1, Integer::sum);
            if (value.startsWith("bad") || (value.startsWith("once") && tried == 1)) {
                throw new IllegalStateException(value);
            }
            done.add(value);
        }

        @DltHandler
        public void dead(String value) {
            dead.add(value);
        }

        @KafkaListener(id = "copier", topics = "copied-from", containerFactory = "inTransactions")
        public void copy(String value) {
            transactional.send("copied-to", value);
            if (value.endsWith("3") && tries.merge("copy " + value, 1, Integer::sum) == 1) {
                throw new IllegalStateException("what was sent is taken back: " + value);
            }
        }

        @KafkaListener(id = "reader", topics = "copied-to")
        public void copied(String value) {
            copied.add(value);
        }

        @KafkaListener(id = "answering", topics = "questions")
        @SendTo
        public String answer(String value) {
            return "to " + value;
        }
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        var context = new AnnotationConfigApplicationContext(Config.class);
        KafkaTemplate<String, String> template = context.getBean("template", KafkaTemplate.class);
        for (int number = 0; number < 30; number++) {
            String kind = number % 10 == 0 ? "bad" : number % 10 == 1 ? "once" : "good";
            template.send("orders", "" + number, kind + number);
            template.send("copied-from", "" + number, "v" + number);
        }
        template.flush();
        ReplyingKafkaTemplate<String, String, String> replying = context.getBean(ReplyingKafkaTemplate.class);
        replying.waitForAssignment(java.time.Duration.ofSeconds(30));
        var answer = replying.sendAndReceive(new ProducerRecord<>("questions", "me")).get(30, TimeUnit.SECONDS);
        long end = System.currentTimeMillis() + 60_000;
        while (System.currentTimeMillis() < end && (done.size() < 27 || dead.size() < 3 || copied.size() < 30)) {
            Thread.sleep(200);
        }
        Thread.sleep(1500); // nothing comes twice
        System.out.printf("{\"done\": %d, \"dead\": %d, \"copied\": %d, \"different\": %d, \"answer\": \"%s\"}%n",
            done.size(), new TreeSet<>(dead).size(), copied.size(), new TreeSet<>(copied).size(), answer.value());
        context.close();
        System.exit(0);
    }
}
