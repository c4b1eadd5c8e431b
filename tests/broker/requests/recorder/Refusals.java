import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.ClusterAuthorizationException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Answers to requests that fail as a whole. Reads one request a line from standard input, "API version hex", and prints the same with the
 * answer's bytes; a request that this release can't read, or has no answer for, is left out.
 */
public final class Refusals {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 3);
            short version = Short.parseShort(words[1]);
            try {
                System.out.println(words[0] + " " + version + " " + HexFormat.of().formatHex(
                    refused(ApiKeys.valueOf(words[0]), version, HexFormat.of().parseHex(words[2]))));
            } catch (RuntimeException | AssertionError e) {
                System.err.println(words[0] + " " + version + ": " + e);
            }
        }
    }

    private static byte[] refused(ApiKeys key, short version, byte[] body) {
        AbstractRequest request = AbstractRequest.parseRequest(key, version, new ByteBufferAccessor(ByteBuffer.wrap(body))).request;
        AbstractResponse response = request.getErrorResponse(0, new ClusterAuthorizationException("why"));
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
