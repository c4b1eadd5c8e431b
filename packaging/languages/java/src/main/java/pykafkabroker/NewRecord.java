package pykafkabroker;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A record to write or to expect. Key and value are text, bytes, null, or anything else as JSON. What is left out is
 * written as none, and is not compared.
 */
public final class NewRecord {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    private NewRecord() {}

    /** A record with a key and a value. */
    public static NewRecord of(Object key, Object value) {
        return value(value).put("key", key);
    }

    /** A record with a value. */
    public static NewRecord value(Object value) {
        return new NewRecord().put("value", value);
    }

    /** Add a header. A name may occur several times. */
    public NewRecord header(String name, Object value) {
        List<Object> headers = new ArrayList<>((List<?>) fields.getOrDefault("headers", List.of()));
        headers.add(new NewRecord().put("value", value).named(name));
        fields.put("headers", headers);
        return this;
    }

    public NewRecord timestamp(Instant timestamp) {
        fields.put("timestamp", timestamp.toEpochMilli());
        return this;
    }

    public NewRecord partition(int partition) {
        fields.put("partition", partition);
        return this;
    }

    Map<String, Object> fields() {
        return fields;
    }

    private Map<String, Object> named(String name) {
        fields.put("name", name);
        return fields;
    }

    private NewRecord put(String name, Object content) {
        if (content instanceof byte[] bytes) {
            fields.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
        } else {
            fields.put(name, content);
        }
        return this;
    }
}
