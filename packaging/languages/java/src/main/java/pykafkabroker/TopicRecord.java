package pykafkabroker;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;

/**
 * A record of a topic. {@code key} and {@code value} are text, and null where the bytes are no UTF-8, which
 * {@code keyBytes} and {@code valueBytes} have. {@code timestamp} is in epoch milliseconds; {@code transaction} is
 * committed, aborted or open, and null for a record that was written outside of one.
 */
public record TopicRecord(
        String topic,
        int partition,
        long offset,
        long timestamp,
        String key,
        String value,
        String keyBase64,
        String valueBase64,
        List<Header> headers,
        String transaction) {

    /** A header of a record; a name may occur several times. */
    public record Header(String name, String value, String valueBase64) {
        public byte[] valueBytes() {
            return bytes(value, valueBase64);
        }
    }

    public byte[] keyBytes() {
        return bytes(key, keyBase64);
    }

    public byte[] valueBytes() {
        return bytes(value, valueBase64);
    }

    private static byte[] bytes(String text, String inBase64) {
        if (inBase64 != null) {
            return Base64.getDecoder().decode(inBase64);
        }
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }
}
