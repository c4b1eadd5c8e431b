package pykafkabroker;

import com.google.gson.reflect.TypeToken;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * A client of a broker's control API. A refusal is a {@link ControlException}; records that are not as a test has asserted
 * are an {@link AssertionError}.
 */
public class ControlClient extends Operations {
    private static final int DOES_NOT_HOLD = 417;
    private static final int MOST_RECORDS = 5000; // of a page
    private final String controlUrl;
    private final String token;

    /** A client of the broker with this control API: http://127.0.0.1:9644. */
    public ControlClient(String controlUrl) {
        this(controlUrl, null);
    }

    /** A client of a broker that asks for a token. */
    public ControlClient(String controlUrl, String token) {
        this.controlUrl = controlUrl.endsWith("/") ? controlUrl.substring(0, controlUrl.length() - 1) : controlUrl;
        this.token = token;
    }

    /** The address of the control API, and of the broker's page for a browser. */
    public String controlUrl() {
        return controlUrl;
    }

    /** Return all records of a topic. */
    public List<TopicRecord> records(String topic) {
        return records(topic, options -> {});
    }

    /** Return records of a topic, of all pages unless there is a limit. */
    public List<TopicRecord> records(String topic, Consumer<Options.RecordsPage> options) {
        Given wanted = Given.query();
        options.accept(new Options.RecordsPage(wanted));
        if (wanted.get("limit") != null) {
            return recordsPage(topic, options).records();
        }
        if (wanted.get("partition") instanceof Integer partition) {
            return allPages(topic, partition, options);
        }
        return IntStream.range(0, topic(topic).partitions())
                .mapToObj(partition -> allPages(topic, partition, options))
                .flatMap(List::stream)
                .toList();
    }

    private List<TopicRecord> allPages(String topic, int partition, Consumer<Options.RecordsPage> options) {
        List<TopicRecord> found = new ArrayList<>();
        var of = options.andThen(each -> each.partition(partition).limit(MOST_RECORDS));
        Answers.Records page = recordsPage(topic, of);
        found.addAll(page.records());
        while (page.more()) {
            long next = page.nextOffsets().get(Integer.toString(partition));
            page = recordsPage(topic, of.andThen(each -> each.fromOffset(next)));
            found.addAll(page.records());
        }
        return found;
    }

    @Override
    <T> T call(String method, String path, Given given, TypeToken<T> type) {
        try {
            // Each call has a connection of its own: an idle one may be closed by the broker when the next call begins.
            var url = URI.create(controlUrl + path + given.target()).toURL();
            var connection = (HttpURLConnection) url.openConnection();
            connection.setRequestMethod(method);
            connection.setRequestProperty("Connection", "close");
            if (token != null) {
                connection.setRequestProperty("Authorization", "Bearer " + token);
            }
            byte[] body = given.bytes();
            if (body != null) {
                connection.setRequestProperty("Content-Type", given.contentType());
            }
            if (body != null || method.equals("POST")) {
                byte[] sent = body == null ? new byte[0] : body;
                connection.setDoOutput(true);
                connection.setFixedLengthStreamingMode(sent.length); // so a call is never sent twice
                try (var output = connection.getOutputStream()) {
                    output.write(sent);
                }
            }
            int status = connection.getResponseCode();
            String text;
            try (InputStream answer = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
                text = answer == null ? "" : new String(answer.readAllBytes(), StandardCharsets.UTF_8);
            }
            String answered = connection.getContentType() == null ? "" : connection.getContentType();
            boolean isJson = answered.matches("application/(problem\\+)?json\\b.*");
            if (status >= 400) {
                throw refused(status, text, isJson);
            }
            if (isJson) {
                return Json.read(text, type);
            }
            @SuppressWarnings("unchecked") // an operation that answers another text is declared as one that does
            T said = (T) text;
            return said;
        } catch (IOException error) {
            throw new UncheckedIOException(controlUrl + ": " + error.getMessage(), error);
        }
    }

    private record Problem(String detail, String code) {}

    private static RuntimeException refused(int status, String text, boolean isJson) {
        if (!isJson) {
            return new ControlException(status, text.strip(), null);
        }
        Problem problem = Json.read(text, new TypeToken<>() {});
        if (status == DOES_NOT_HOLD) {
            throw new AssertionError(problem.detail());
        }
        return new ControlException(status, problem.detail(), problem.code());
    }
}
