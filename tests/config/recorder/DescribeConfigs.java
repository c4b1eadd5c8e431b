import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Sets configs of every kind at a running broker, describes them, and prints the answers: DescribeConfigs BOOTSTRAP PROPERTIES. */
public class DescribeConfigs {
    static final Map<ConfigResource, Map<String, String>> CHANGES = new LinkedHashMap<>();

    static ConfigResource resource(ConfigResource.Type type, String name, String... pairs) {
        Map<String, String> changes = new TreeMap<>();
        for (int i = 0; i < pairs.length; i += 2)
            changes.put(pairs[i], pairs[i + 1]);
        ConfigResource resource = new ConfigResource(type, name);
        CHANGES.put(resource, changes);
        return resource;
    }

    static Map<String, Object> describe(Admin admin, ConfigResource resource) throws Exception {
        Config config = admin.describeConfigs(List.of(resource), new DescribeConfigsOptions().includeSynonyms(true))
            .all().get().get(resource);
        Map<String, Object> entries = new TreeMap<>();
        for (ConfigEntry entry : config.entries()) {
            List<Object> synonyms = new ArrayList<>();
            for (ConfigEntry.ConfigSynonym s : entry.synonyms())
                synonyms.add(Arrays.asList(s.name(), s.value(), s.source().toString()));
            entries.put(entry.name(), Arrays.asList(entry.value(), entry.source().toString(), entry.type().toString(),
                entry.isReadOnly(), entry.isSensitive(), synonyms));
        }
        return entries;
    }

    public static void main(String[] args) throws Exception {
        List<ConfigResource> order = List.of(
            resource(ConfigResource.Type.BROKER, "", "message.max.bytes", "3000000", "log.cleaner.threads", "2",
                "log.flush.interval.ms", "7", "min.insync.replicas", "1"),
            resource(ConfigResource.Type.BROKER, "1", "log.cleaner.threads", "3", "log.roll.ms", "90000000",
                "listener.name.external.sasl.enabled.mechanisms", "PLAIN"),
            resource(ConfigResource.Type.TOPIC, "plain"),
            resource(ConfigResource.Type.TOPIC, "changed", "retention.ms", " 1000", "cleanup.policy", "compact, delete",
                "min.cleanable.dirty.ratio", "0.10", "max.message.bytes", "7"),
            resource(ConfigResource.Type.GROUP, "group", "consumer.session.timeout.ms", "46000"),
            resource(ConfigResource.Type.GROUP, "untouched"),
            resource(ConfigResource.Type.CLIENT_METRICS, "metrics", "interval.ms", "200", "metrics", ""),
            resource(ConfigResource.Type.CLIENT_METRICS, "untouched"));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(List.of(new NewTopic("plain", Optional.of(1), Optional.empty()),
                new NewTopic("changed", Optional.of(1), Optional.empty()))).all().get();
            Map<String, Object> all = new LinkedHashMap<>();
            for (ConfigResource resource : order) {
                List<AlterConfigOp> ops = new ArrayList<>();
                CHANGES.get(resource).forEach((name, value) ->
                    ops.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
                if (!ops.isEmpty()) {
                    admin.incrementalAlterConfigs(Map.of(resource, ops)).all().get();
                    Thread.sleep(1000); // until the broker has the values: the next ones are compared with them
                }
            }
            Properties properties = new Properties();
            properties.load(new FileReader(args[1]));
            all.put("static", new TreeMap<>(properties));
            for (ConfigResource resource : order)
                all.put(resource.type() + "/" + resource.name(),
                    Map.of("set", CHANGES.get(resource), "entries", describe(admin, resource)));
            System.out.println(new ObjectMapper().writeValueAsString(all));
        }
    }
}
