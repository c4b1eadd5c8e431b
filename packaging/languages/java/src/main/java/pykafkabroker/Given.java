package pykafkabroker;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The parameters of a request, as a query, a body of JSON, or a text. */
final class Given {
    private final boolean inQuery;
    private final Map<String, Object> fields = new LinkedHashMap<>();
    private final String text;

    private Given(boolean inQuery, String text) {
        this.inQuery = inQuery;
        this.text = text;
    }

    static Given nothing() {
        return query();
    }

    static Given query() {
        return new Given(true, null);
    }

    static Given body() {
        return new Given(false, null);
    }

    static Given text(String text) {
        return new Given(false, text);
    }

    Given put(String name, Object value) {
        if (value instanceof byte[] bytes) {
            fields.put(name + "_base64", Base64.getEncoder().encodeToString(bytes));
        } else {
            fields.put(name, written(value));
        }
        return this;
    }

    Object get(String name) {
        return fields.get(name);
    }

    private static Object written(Object value) {
        if (value instanceof NewRecord record) {
            return record.fields();
        }
        if (value != null && value.getClass().getEnclosingClass() == Answers.class) {
            return Json.named(value); // its names are the API's own
        }
        return value instanceof List<?> list ? list.stream().map(Given::written).toList() : value;
    }

    static String inPath(Object part) {
        return URLEncoder.encode(part.toString(), StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** The query with its question mark, or nothing. */
    String target() {
        if (!inQuery || fields.isEmpty()) {
            return "";
        }
        return fields.entrySet().stream()
                .map(each -> each.getKey() + "=" + inPath(each.getValue()))
                .collect(Collectors.joining("&", "?", ""));
    }

    /** The body, or null for none. */
    byte[] bytes() {
        if (text != null) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        return inQuery ? null : Json.write(fields).getBytes(StandardCharsets.UTF_8);
    }

    String contentType() {
        return text == null ? "application/json" : "text/plain; charset=utf-8";
    }
}
