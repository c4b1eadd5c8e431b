import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Since 1.0, which brought createPartitions. How configs are altered differs: the old way has gone with 4.0. */
public class MatrixAdmin implements Matrix.Scenario {
    @Override
    public String run(String bootstrap, String topic) throws Exception {
        String name = topic + "-made";
        AdminClient admin = AdminClient.create(Matrix.settings(bootstrap, new String[0]));
        admin.createTopics(Collections.singletonList(new NewTopic(name, 1, (short) 1))).all().get();
        admin.createPartitions(Collections.singletonMap(name, NewPartitions.increaseTo(3))).all().get();
        Matrix.until(() -> Matrix.consumer(bootstrap, topic).partitionsFor(name).size() == 3, "three partitions");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        alter(admin, resource, new ConfigEntry("retention.ms", "7654321"));
        Matrix.until(() -> value(admin, resource).equals("7654321"), "the changed config");
        delete(admin, name);
        return null;
    }

    private static String value(AdminClient admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(Collections.singletonList(resource)).all().get().get(resource).get("retention.ms").value();
    }

    /** Older releases name neither `incrementalAlterConfigs` nor a class for its changes, newer ones no `alterConfigs`. */
    private static void alter(AdminClient admin, ConfigResource resource, ConfigEntry entry) throws Exception {
        Object result;
        try {
            Object change = new Config(Collections.singletonList(entry));
            result = AdminClient.class.getMethod("alterConfigs", Map.class).invoke(admin, Collections.singletonMap(resource, change));
        } catch (NoSuchMethodException since4) {
            Class<?> kinds = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp$OpType");
            Class<?> change = Class.forName("org.apache.kafka.clients.admin.AlterConfigOp");
            Object set = change.getConstructor(ConfigEntry.class, kinds).newInstance(entry, kinds.getField("SET").get(null));
            Object changes = Collections.singletonMap(resource, Collections.singletonList(set));
            result = AdminClient.class.getMethod("incrementalAlterConfigs", Map.class).invoke(admin, changes);
        }
        get(result);
    }

    /** Takes names since the beginning, in a signature that has changed. */
    private static void delete(AdminClient admin, String name) throws Exception {
        get(AdminClient.class.getMethod("deleteTopics", Collection.class).invoke(admin, Collections.singletonList(name)));
    }

    private static void get(Object result) throws Exception {
        Object all = result.getClass().getMethod("all").invoke(result);
        ((java.util.concurrent.Future<?>) Class.forName("org.apache.kafka.common.KafkaFuture").cast(all)).get();
    }
}
