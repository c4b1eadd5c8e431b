import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Sends each request of standard input ("Api version json") to the broker on PORT and prints it with its answer, as JSON lines.
 * LOGDIR in a body stands for the broker's log directory, "id TOPIC" for the id of a topic that an answer has shown.
 */
public class Record {
    static final ObjectMapper JSON = new ObjectMapper()
        .configure(JsonParser.Feature.ALLOW_UNQUOTED_FIELD_NAMES, true)
        .configure(JsonParser.Feature.ALLOW_SINGLE_QUOTES, true);

    static final String NO_ID = "AAAAAAAAAAAAAAAAAAAAAA";
    static final Map<String, String> IDS = new HashMap<>();

    static byte[] bytes(ApiMessage message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] out = new byte[buffer.remaining()];
        buffer.get(out);
        return out;
    }

    static byte[] exchange(int port, byte[] header, byte[] body) throws Exception {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setSoTimeout(10_000);
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(header.length + body.length);
            out.write(header);
            out.write(body);
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            return answer;
        }
    }

    static ObjectNode record(int port, String name, short version, String text) throws Exception {
        String base = "org.apache.kafka.common.message." + name;
        ApiMessage request = (ApiMessage) Class.forName(base + "RequestDataJsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, JSON.readTree(text), version);
        ApiKeys key = ApiKeys.forId(request.apiKey());
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey(key.id).setRequestApiVersion(version)
            .setCorrelationId(7).setClientId("recorder");
        byte[] body = bytes(request, version);
        byte[] frame = exchange(port, bytes(header, key.requestHeaderVersion(version)), body);
        ByteBuffer answer = ByteBuffer.wrap(frame);
        ByteBufferAccessor accessor = new ByteBufferAccessor(answer);
        new ResponseHeaderData(accessor, key.responseHeaderVersion(version));
        int start = answer.position();
        short written = key == ApiKeys.API_VERSIONS && answer.getShort(start) == 35 ? 0 : version;
        Class<?> type = Class.forName(base + "ResponseData");
        Object response = type.getConstructor(Readable.class, short.class).newInstance(accessor, written);
        JsonNode shown = (JsonNode) Class.forName(base + "ResponseDataJsonConverter")
            .getMethod("write", type, short.class).invoke(null, response, written);
        learnIds(shown);
        ObjectNode row = JSON.createObjectNode();
        row.put("key", key.id).put("version", version).put("answer_version", written);
        row.put("request", HexFormat.of().formatHex(body));
        row.put("answer", HexFormat.of().formatHex(frame, start, frame.length));
        return row;
    }

    static void learnIds(JsonNode node) {
        if (node.hasNonNull("name") && node.hasNonNull("topicId") && !node.get("topicId").asText().equals(NO_ID))
            IDS.put("id " + node.get("name").asText(), node.get("topicId").asText());
        node.forEach(Record::learnIds);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.strip().split("\\s+", 3);
            String body = (words.length > 2 ? words[2] : "{}").replace("LOGDIR", args[1]);
            for (Map.Entry<String, String> id : IDS.entrySet())
                body = body.replace("'" + id.getKey() + "'", "'" + id.getValue() + "'");
            ObjectNode row = record(Integer.parseInt(args[0]), words[0], Short.parseShort(words[1]), body);
            System.out.println(row.put("text", line));
            Thread.sleep(200); // a change is seen by the broker's own copy of the metadata a little later
        }
    }
}
