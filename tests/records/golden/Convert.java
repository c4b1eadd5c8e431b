// Reads the lines of MakeBatches and prints what Kafka 3.9.2, the last release that converts, makes of them: see README.md.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public class Convert {
    static final long APPEND_TIME = 1_800_000_000_000L;

    static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    };

    static class FixedTime implements Time {
        public long milliseconds() { return APPEND_TIME; }
        public long hiResClockMs() { return APPEND_TIME; }
        public long nanoseconds() { return APPEND_TIME * 1_000_000; }
        public void sleep(long ms) { }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { }
    }

    static MemoryRecords validated(byte[] bytes, CompressionType source, CompressionType target, TimestampType type) {
        return new LogValidator(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes.clone())), new TopicPartition("t", 0),
            new FixedTime(), source, Compression.of(target).build(), false, (byte) 2, type, Long.MAX_VALUE, Long.MAX_VALUE, 7,
            AppendOrigin.CLIENT, MetadataVersion.latestProduction())
            .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(100), NO_METRICS, BufferSupplier.NO_CACHING).validatedRecords;
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            String name = line.substring(0, line.indexOf(' '));
            String[] parts = name.split("-");
            if (parts.length != 3 || !name.matches("v[012]-.*-(create|append)")) continue;
            byte[] bytes = HexFormat.of().parseHex(line.substring(line.indexOf(' ') + 1));
            CompressionType codec = CompressionType.forName(parts[1]);
            if (!name.startsWith("v2")) {
                if (name.endsWith("append")) continue;
                print("up-create-" + name, validated(bytes, codec, codec, TimestampType.CREATE_TIME));
                print("up-append-" + name, validated(bytes, codec, codec, TimestampType.LOG_APPEND_TIME));
            } else if (codec != CompressionType.ZSTD) {
                for (byte magic = 0; magic < 2; magic++) {
                    MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
                    print("down-v" + magic + "-" + name, records.downConvert(magic, 102, Time.SYSTEM).records());
                }
            }
        }
    }
}
