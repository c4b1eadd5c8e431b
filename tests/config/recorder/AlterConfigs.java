import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/** Asks a running broker, validate-only, for changes that it may refuse, and prints its answers: AlterConfigs BOOTSTRAP. */
public class AlterConfigs {
    static final String[] CHANGES = {
        "TOPIC t SET retention.ms=x", "TOPIC t SET no.such.key=1", "TOPIC t SET message.format.version=2.0",
        "TOPIC t SET min.compaction.lag.ms=5 SET max.compaction.lag.ms=4", "TOPIC t SET remote.storage.enable=true",
        "TOPIC t SET local.retention.ms=5 SET retention.ms=4", "TOPIC t SET local.retention.ms=5",
        "TOPIC t SET local.retention.bytes=5 SET retention.bytes=4", "TOPIC t SET remote.log.copy.disable=true",
        "TOPIC t APPEND retention.ms=4", "TOPIC t SUBTRACT retention.ms=4", "TOPIC t APPEND cleanup.policy=compact",
        "TOPIC t APPEND cleanup.policy=x", "TOPIC t SUBTRACT cleanup.policy=delete", "TOPIC t SET cleanup.policy=",
        "TOPIC t SUBTRACT cleanup.policy=nothing", "TOPIC t APPEND cleanup.policy=delete", "TOPIC t DELETE no.such.key=",
        "TOPIC t DELETE retention.ms=", "TOPIC t SET internal.segment.bytes=100", "TOPIC t SET segment.bytes=100",
        "TOPIC missing SET retention.ms=1", "TOPIC t SET retention.ms=1 DELETE retention.ms=",
        "TOPIC t SET min.insync.replicas=5", "TOPIC t SET min.insync.replicas=0", "TOPIC t SET flush.ms=-1",
        "TOPIC bad/name SET flush.ms=1", "TOPIC t SET retention.ms=", "TOPIC t SET unclean.leader.election.enable=maybe",
        "BROKER 1 SET log.retention.hours=5", "BROKER 1 SET no.such.key=5", "BROKER 1 SET log.retention.ms=x",
        "BROKER 1 SET log.retention.ms=0", "BROKER 1 SET log.retention.ms=-2", "BROKER 1 SET num.partitions=5",
        "BROKER  SET listeners=PLAINTEXT://:1", "BROKER  SET ssl.keystore.password=x", "BROKER 1 SET num.io.threads=0",
        "BROKER 1 SET num.io.threads=100", "BROKER 1 SET num.io.threads=1", "BROKER 2 SET num.io.threads=5",
        "BROKER  SET log.cleaner.threads=20", "BROKER 1 SET background.threads=9",
        "BROKER 1 SET log.cleaner.min.compaction.lag.ms=9 SET log.cleaner.max.compaction.lag.ms=8",
        "BROKER 1 SET min.insync.replicas=2", "BROKER 1 APPEND log.cleanup.policy=compact",
        "BROKER 1 APPEND log.retention.ms=1", "BROKER 1 SET log.local.retention.ms=5 SET log.retention.ms=4",
        "BROKER 1 SET max.connections.per.ip.overrides=x", "BROKER 1 SET max.connections.per.ip.overrides=127.0.0.1:5",
        "BROKER 1 SET advertised.listeners=PLAINTEXT://:1", "BROKER 1 SET message.max.bytes=-1",
        "BROKER  SET message.max.bytes=-1", "BROKER  SET no.such.key=-1", "BROKER 1 SET node.id=-1",
        "BROKER 1 SET config.providers=x", "BROKER 1 SET max.connections=5", "BROKER 1 SET zookeeper.connect=x",
        "BROKER 1 SET listener.name.external.ssl.keystore.location=/none", "BROKER 1 SET broker.id=3",
        "BROKER  SET follower.replication.throttled.rate=5", "BROKER 1 SET leader.replication.throttled.rate=-5",
        "BROKER_LOGGER 1 SET kafka=DEBUG", "BROKER_LOGGER 1 SET kafka=LOUD", "BROKER_LOGGER 1 SET no.such.logger=INFO",
        "BROKER_LOGGER 1 DELETE root=", "BROKER_LOGGER 2 SET kafka=INFO", 
        "GROUP g SET consumer.session.timeout.ms=44999", "GROUP g SET consumer.session.timeout.ms=60001",
        "GROUP g SET consumer.heartbeat.interval.ms=4999", "GROUP g SET consumer.heartbeat.interval.ms=15001",
        "GROUP g SET consumer.heartbeat.interval.ms=x", "GROUP g SET no.such.key=x", "GROUP  SET share.auto.offset.reset=x",
        "GROUP g SET share.auto.offset.reset=none", "GROUP g SET share.session.timeout.ms=1",
        "GROUP g SET share.session.timeout.ms=99999", "GROUP g SET share.record.lock.duration.ms=1000",
        "GROUP g SET share.record.lock.duration.ms=70000", "GROUP g SET streams.num.standby.replicas=3",
        "GROUP g SET streams.session.timeout.ms=1", "GROUP g SET streams.heartbeat.interval.ms=1",
        "GROUP g SET share.delivery.count.limit=11", "GROUP g SET share.partition.max.record.locks=5000",
        "GROUP g SET share.heartbeat.interval.ms=1", "GROUP g SET share.heartbeat.interval.ms=16000",
        "GROUP g SET consumer.assignment.interval.ms=16000", "GROUP g APPEND share.isolation.level=x",
        "GROUP g SET streams.session.timeout.ms=60001", "GROUP g SET streams.heartbeat.interval.ms=15001",
        "GROUP g SET share.delivery.count.limit=1", "GROUP g SET share.partition.max.record.locks=99",
        "GROUP g SET share.assignment.interval.ms=16000", "GROUP g SET streams.assignment.interval.ms=16000",
        "GROUP g SET share.session.timeout.ms=45000 SET share.heartbeat.interval.ms=15000",
        "CLIENT_METRICS m SET interval.ms=99", "CLIENT_METRICS m SET interval.ms=3600001",
        "CLIENT_METRICS m SET interval.ms=x", "CLIENT_METRICS m SET match=client_id", "CLIENT_METRICS m SET match=x=y",
        "CLIENT_METRICS m SET match=client_id=[", "CLIENT_METRICS m SET no.such.key=y", "CLIENT_METRICS  SET interval.ms=100",
        "CLIENT_METRICS m SET match=client_id=a,client_source_port=1", "CLIENT_METRICS m SET metrics=*",
        "CLIENT_METRICS m SET match=client_id=a,client_id=b",
    };

    static String answer(Admin admin, String change) throws Exception {
        String[] words = change.split(" ", 3);
        List<AlterConfigOp> ops = new ArrayList<>();
        for (String op : words[2].split(" (?=SET|APPEND|SUBTRACT|DELETE)")) {
            String[] parts = op.trim().split("[ =]", 3);
            ops.add(new AlterConfigOp(new ConfigEntry(parts[1], parts[2]), AlterConfigOp.OpType.valueOf(parts[0])));
        }
        ConfigResource resource = new ConfigResource(ConfigResource.Type.valueOf(words[0]), words[1]);
        try {
            admin.incrementalAlterConfigs(Map.of(resource, ops), new AlterConfigsOptions().validateOnly(true)).all().get();
            return "NONE";
        } catch (ExecutionException e) {
            return Errors.forException(e.getCause()) + ": " + e.getCause().getMessage();
        }
    }

    public static void main(String[] args) throws Exception {
        List<Object> rows = new ArrayList<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(List.of(new NewTopic("t", 1, (short) 1))).all().get();
            for (String change : CHANGES)
                rows.add(Arrays.asList(change, answer(admin, change)));
        }
        System.out.println(new ObjectMapper().writeValueAsString(rows));
    }
}
