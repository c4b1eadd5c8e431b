package pykafkabroker;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The options of a broker, as setters of what starts one. */
public abstract class BrokerOptions<T extends BrokerOptions<T>> {
    final Map<String, Integer> topics = new LinkedHashMap<>();
    List<String> command = List.of();
    private final Map<String, Object> config = new LinkedHashMap<>();
    private final List<String> flags = new ArrayList<>();
    private boolean quickGroups = true;
    private boolean strict = true;
    private int port;

    BrokerOptions() {}

    @SuppressWarnings("unchecked") // T is the class of this object
    private T self() {
        return (T) this;
    }

    /** Topics of one partition that are there after the start and after each reset. */
    public T topics(String... names) {
        for (String name : names) {
            topics.put(name, 1);
        }
        return self();
    }

    /** A topic that is there after the start and after each reset. */
    public T topic(String name, int partitions) {
        topics.put(name, partitions);
        return self();
    }

    /**
     * One of Kafka's broker configs: {@code config("log.retention.ms", 1000)}. A line on standard error names an unknown
     * one.
     */
    public T config(String name, Object value) {
        config.put(name, value);
        return self();
    }

    /** The release of Kafka that clients see, "2.8"; by default the newest. */
    public T emulate(String release) {
        return flag("--emulate", release);
    }

    /** Start a schema registry, at {@link KafkaBroker#schemaRegistryUrl}. */
    public T schemaRegistry() {
        return flag("--schema-registry", "127.0.0.1:0");
    }

    /** The file to write down in what clients produce, fetch and commit, for {@code check}. */
    public T history(Path file) {
        return flag("--history", file.toString());
    }

    /** "debug", "info" (the default), "warning" or "error". */
    public T logLevel(String level) {
        return flag("--log-level", level);
    }

    /** Give groups Kafka's heartbeat intervals. */
    public T slowGroups() {
        quickGroups = false;
        return self();
    }

    /** Do some things sooner than Kafka does. */
    public T notStrict() {
        strict = false;
        return self();
    }

    /** The port to listen on; by default a free one. */
    public T port(int number) {
        port = number;
        return self();
    }

    /** The program and its first arguments; by default PYKAFKA_BROKER_PROGRAM, or what is found on the PATH. */
    public T command(String... program) {
        command = List.of(program);
        return self();
    }

    private T flag(String name, String value) {
        flags.add(name);
        flags.add(value);
        return self();
    }

    List<String> flags() {
        var given = new ArrayList<>(List.of("--stop-on-stdin-close", "--control", "127.0.0.1:0"));
        given.addAll(flags);
        if (!config.containsKey("log.dirs") && !config.containsKey("log.dir")) {
            given.add("--ephemeral");
        }
        if (!config.containsKey("listeners")) {
            given.addAll(List.of("--listen", "127.0.0.1:" + port));
        }
        if (quickGroups) {
            given.add("--quick-groups");
        }
        if (strict) {
            given.add("--strict");
        }
        config.forEach((name, value) -> given.addAll(List.of("--override", name + "=" + value)));
        return given;
    }
}
