// Prints one line for each golden batch: its name and its bytes in hex. Runs against Kafka 4.4.0, see README.md.

import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

public class MakeBatches {
    static final long TIME = 1_700_000_000_000L;
    static final long APPEND_TIME = 1_800_000_000_000L;

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] pattern(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = (byte) (i % 251);
        return bytes;
    }

    static void print(String name, ByteBuffer buffer) {
        StringBuilder line = new StringBuilder(name).append(' ');
        for (ByteBuffer bytes = buffer.duplicate(); bytes.hasRemaining(); ) line.append(String.format("%02x", bytes.get()));
        System.out.println(line);
    }

    static MemoryRecordsBuilder builder(int magic, CompressionType codec, TimestampType type, long producerId, int epoch,
            int sequence, boolean transactional, boolean control, int leaderEpoch, long deleteHorizonMs) {
        long appendTime = type == TimestampType.LOG_APPEND_TIME ? APPEND_TIME : -1;
        try { // the stream's class has moved with 4.4, so its name must not stand here
            Constructor<?> whole = Arrays.stream(MemoryRecordsBuilder.class.getConstructors())
                .filter(each -> each.getParameterCount() == 14).findFirst().orElseThrow();
            Object stream = whole.getParameterTypes()[0].getConstructor(int.class).newInstance(1 << 10);
            return (MemoryRecordsBuilder) whole.newInstance(stream, (byte) magic, Compression.of(codec).build(),
                type, 100L, appendTime, producerId, (short) epoch, sequence, transactional, control, leaderEpoch, 1 << 20,
                deleteHorizonMs);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static MemoryRecordsBuilder plain(int magic, CompressionType codec, TimestampType type) {
        return builder(magic, codec, type, -1, -1, -1, false, false, -1, -1);
    }

    static ByteBuffer sample(MemoryRecordsBuilder builder) {
        Header[] none = {};
        Header[] some = {new RecordHeader("h", utf8("v")), new RecordHeader("h", null), new RecordHeader("\u00e9", utf8(""))};
        Header[] headers = builder.magic() < 2 ? none : some;
        builder.appendWithOffset(100, TIME, utf8("key"), utf8("value"), none);
        builder.appendWithOffset(101, TIME + 1, null, utf8("only a value"), none);
        builder.appendWithOffset(102, TIME + 2000, utf8("only a key"), null, headers);
        builder.appendWithOffset(105, TIME - 5, utf8(""), utf8(""), none);
        builder.appendWithOffset(106, TIME + 86_400_000, pattern(300), pattern(1500), none);
        return builder.build().buffer();
    }

    static ByteBuffer times(long... timestamps) {
        MemoryRecordsBuilder builder = plain(2, CompressionType.NONE, TimestampType.CREATE_TIME);
        for (long timestamp : timestamps) builder.append(timestamp, utf8("k"), utf8("v"));
        return builder.build().buffer();
    }

    public static void main(String[] arguments) {
        for (CompressionType codec : CompressionType.values()) {
            for (int magic = 0; magic <= 2; magic++) {
                if (codec == CompressionType.ZSTD && magic < 2) continue;
                String name = "v" + magic + "-" + codec.name;
                print(name + "-create", sample(plain(magic, codec, TimestampType.CREATE_TIME)));
                if (magic > 0) print(name + "-append", sample(plain(magic, codec, TimestampType.LOG_APPEND_TIME)));
                if (codec == CompressionType.NONE) continue;
                MemoryRecordsBuilder large = plain(magic, codec, TimestampType.CREATE_TIME);
                large.append(TIME, null, pattern(100_000));
                print(name + "-large", large.build().buffer());
            }
        }
        TimestampType create = TimestampType.CREATE_TIME;
        CompressionType none = CompressionType.NONE;
        print("idempotent", sample(builder(2, none, create, 4000, 3, 2147483646, false, false, 7, -1)));
        print("transactional", sample(builder(2, none, create, 4000, 3, 0, true, false, 7, -1)));
        print("delete-horizon", sample(builder(2, none, create, -1, -1, -1, false, false, 7, TIME + 500)));
        print("no-timestamps", times(-1, -1));
        print("far-timestamps", times(Long.MAX_VALUE, -1, 0, 1L << 62));
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 4000, (short) 3, 9, 100, 106, 7, create, TIME, true, false);
        print("empty", empty.flip());
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            EndTransactionMarker marker = new EndTransactionMarker(type, 12);
            print(type.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(100, TIME, 7, 4000, (short) 3, marker).buffer());
        }
        ByteBuffer buffer = ByteBuffer.allocate(1 << 10);
        print("leader-change", MemoryRecords.withLeaderChangeMessage(100, TIME, 7, buffer,
            new LeaderChangeMessage().setLeaderId(1)).buffer());
        print("snapshot-header", MemoryRecords.withSnapshotHeaderRecord(100, TIME, 7, ByteBuffer.allocate(1 << 10),
            new SnapshotHeaderRecord().setLastContainedLogTimestamp(TIME)).buffer());
        print("snapshot-footer", MemoryRecords.withSnapshotFooterRecord(100, TIME, 7, ByteBuffer.allocate(1 << 10),
            new SnapshotFooterRecord()).buffer());
        print("kraft-version", MemoryRecords.withKRaftVersionRecord(100, TIME, 7, ByteBuffer.allocate(1 << 10),
            new KRaftVersionRecord().setKRaftVersion((short) 1)).buffer());
        print("kraft-voters", MemoryRecords.withVotersRecord(100, TIME, 7, ByteBuffer.allocate(1 << 10),
            new VotersRecord()).buffer());
    }
}
