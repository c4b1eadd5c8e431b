import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Bytes of Kafka's own message classes. Reads one case a line from standard input, {"class", "version", "values"}, and answers each with
 * the same line plus "bytes" (base64); a case whose class or version this release doesn't have is left out. The values go through the
 * release's JSON converter, so a name, a type or a nullability that differs from ours ends the program.
 */
public final class GoldenBytes {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode golden = (ObjectNode) JSON.readTree(line);
            byte[] bytes = bytesOf(golden.get("class").asText(), (short) golden.get("version").asInt(), golden.get("values"));
            if (bytes != null) {
                golden.put("bytes", Base64.getEncoder().encodeToString(bytes));
                out.println(JSON.writeValueAsString(golden));
            }
        }
        out.flush();
    }

    private static byte[] bytesOf(String name, short version, JsonNode values) throws Exception {
        Class<?> message = findClass(name);
        if (message == null || version < limit(message, "LOWEST_SUPPORTED_VERSION") || version > limit(message, "HIGHEST_SUPPORTED_VERSION")) {
            return null;
        }
        try {
            Class<?> converter = Class.forName(name + "JsonConverter");
            Message filled = (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, values, version);
            ObjectSerializationCache sizes = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(filled.size(sizes, version));
            filled.write(new ByteBufferAccessor(buffer), sizes, version);
            if (buffer.hasRemaining()) {
                throw new IllegalStateException(name + " version " + version + " is shorter than its size");
            }
            return buffer.array();
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(name + " version " + version + ": " + values, e.getCause());
        }
    }

    private static Class<?> findClass(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static short limit(Class<?> message, String field) throws ReflectiveOperationException {
        return message.getField(field).getShort(null);
    }
}
