import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints what a Kafka release says of its configs: definitions, and its verdict on sample values of every key. */
public class DumpConfigs {
    static final String[] NUMBERS = {"5", "+5", " 7 ", "-1", "-2", "0", "1", "1.5", "abc", "", "99999999999", "1_000"};
    static final String[] DOUBLES = {"0.5", "1", "1.5", "-0.1", "abc", "", "1e-1", "NaN"};
    static final String[] BOOLEANS = {"true", "FALSE", " True ", "yes", "1", ""};
    static final String[] STRINGS = {"", "x", " y "};
    static final String[] LISTS = {"", "a", "a,b", " a , b ", "a,,b", ",", "a,a", "compact", "compact,delete", "delete,delete",
        "compact,x", "classic,consumer", "broker", "broker,broker", "1:2", "*", "1:2,3", "0:a", "1@h:9", "h:9"};

    static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    static Map<String, Object> definition(ConfigDef.ConfigKey key) throws Exception {
        Map<String, Object> entry = new LinkedHashMap<>();
        entry.put("type", key.type.toString());
        entry.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        entry.put("internal", key.internalConfig);
        ConfigDef.Validator validator = key.validator;
        if (validator == null)
            return entry;
        entry.put("validator", validator.getClass().getSimpleName());
        entry.put("text", validator.toString());
        if (validator instanceof ConfigDef.Range) {
            entry.put("min", field(validator, "min"));
            entry.put("max", field(validator, "max"));
        } else if (validator instanceof ConfigDef.ValidList) {
            entry.put("allowed", field(field(validator, "validString"), "validStrings"));
            entry.put("allow_empty", field(validator, "isEmptyAllowed"));
        } else if (validator instanceof ConfigDef.ValidString) {
            entry.put("allowed", field(validator, "validStrings"));
        } else if (validator instanceof ConfigDef.CaseInsensitiveValidString) {
            entry.put("allowed", field(validator, "validStrings"));
        }
        return entry;
    }

    static Set<String> samples(ConfigDef.ConfigKey key) {
        Set<String> values = new LinkedHashSet<>(Arrays.asList(switch (key.type) {
            case INT, LONG, SHORT -> NUMBERS;
            case DOUBLE -> DOUBLES;
            case BOOLEAN -> BOOLEANS;
            case LIST -> LISTS;
            case CLASS -> new String[0];
            default -> STRINGS;
        }));
        if (key.type == ConfigDef.Type.SHORT)
            values.add("40000");
        if (key.name.equals("share.auto.offset.reset"))
            values.addAll(List.of("by_duration:PT1H", "by_duration:P1DT2.5S", "by_duration:", "by_duration:-PT1H", "none"));
        String limits = key.validator == null ? "" : String.valueOf(key.validator);
        for (String word : limits.split("[^-A-Za-z0-9_]+")) {
            if (word.matches("-?\\d+"))
                values.addAll(List.of(word, "" + (Long.parseLong(word) - 1), "" + (Long.parseLong(word) + 1)));
            else if (!word.isEmpty())
                values.addAll(List.of(word, word.toUpperCase()));
        }
        return values;
    }

    static List<Object> verdict(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null)
                key.validator.ensureValid(key.name, value);
            return Arrays.asList(text, ConfigDef.convertToString(value, key.type), null);
        } catch (ConfigException e) {
            return Arrays.asList(text, null, e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, ConfigDef> scopes = new LinkedHashMap<>();
        scopes.put("broker", KafkaConfig.configDef());
        scopes.put("topic", LogConfig.configDefCopy());
        scopes.put("group", GroupConfig.CONFIG_DEF);
        scopes.put("client_metrics", ClientMetricsConfigs.configDef());
        Map<String, Object> keys = new LinkedHashMap<>();
        Map<String, Object> verdicts = new LinkedHashMap<>();
        for (Map.Entry<String, ConfigDef> scope : scopes.entrySet()) {
            Map<String, Object> definitions = new TreeMap<>();
            Map<String, Object> samples = new TreeMap<>();
            for (ConfigDef.ConfigKey key : scope.getValue().configKeys().values()) {
                definitions.put(key.name, definition(key));
                List<Object> rows = new ArrayList<>();
                for (String text : samples(key))
                    rows.add(verdict(key, text));
                samples.put(key.name, rows);
            }
            keys.put(scope.getKey(), definitions);
            verdicts.put(scope.getKey(), samples);
        }
        Map<String, Object> topicSynonyms = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            List<Object> rows = new ArrayList<>();
            synonyms.forEach(s -> rows.add(List.of(s.name(), Long.parseLong(s.converter().apply("1")))));
            topicSynonyms.put(name, rows);
        });
        Map<String, Object> groupSynonyms = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, synonym) -> synonym.ifPresent(s -> groupSynonyms.put(name, s)));
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("keys", keys);
        all.put("modes", new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes()));
        all.put("topic_synonyms", topicSynonyms);
        all.put("group_synonyms", groupSynonyms);
        all.put("verdicts", verdicts);
        System.out.println(new ObjectMapper().writeValueAsString(all));
    }
}
