package pykafkabroker;

import com.google.gson.FieldNamingPolicy;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;

/** JSON as the control API has it. What a test hands over is written under its own names, but for answers of the API. */
final class Json {
    private static final Gson WRITING = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private static final Gson READING = new GsonBuilder()
            .setFieldNamingPolicy(FieldNamingPolicy.LOWER_CASE_WITH_UNDERSCORES)
            .setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE)
            .create();

    private Json() {}

    static String write(Object value) {
        return WRITING.toJson(value);
    }

    static JsonElement named(Object answer) {
        return READING.toJsonTree(answer);
    }

    static <T> T read(String text, TypeToken<T> type) {
        return READING.fromJson(text, type.getType());
    }
}
