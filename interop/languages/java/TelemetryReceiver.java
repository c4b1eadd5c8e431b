import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A receiver of the metrics of clients, which a broker of Kafka needs to offer telemetry (KIP-714). Each push becomes a
 * line in the file that the broker's config `telemetry.file` names: instance id, terminating, content type, bytes.
 */
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    private Path file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of(String.valueOf(configs.get("telemetry.file")));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {
            byte[] data = new byte[payload.data().remaining()];
            payload.data().duplicate().get(data);
            String line = String.join(" ", payload.clientInstanceId().toString(),
                String.valueOf(payload.isTerminating()), payload.contentType().replace(" ", ""),
                HexFormat.of().formatHex(data));
            try {
                Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        };
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
