package pykafkabroker;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A broker on a free port of the loopback interface, in a process of its own that ends with this one:
 * {@code try (var broker = KafkaBroker.start()) { ... }}. With JUnit, {@link KafkaBrokerExtension} starts and stops it.
 */
public final class KafkaBroker extends ControlClient implements AutoCloseable {
    private static final int START_TIMEOUT_S = 30;
    private static final int STOP_TIMEOUT_S = 30;
    private final Started started;
    private final Map<String, Integer> topics;

    private KafkaBroker(Started started, Map<String, Integer> topics) {
        super(started.addresses.get("control"));
        this.started = started;
        this.topics = Map.copyOf(topics);
    }

    /** Start a broker without options. */
    public static KafkaBroker start() {
        return builder().start();
    }

    /** The options of a broker that {@code start} starts. */
    public static Builder builder() {
        return new Builder();
    }

    /** The options of a broker. */
    public static final class Builder extends BrokerOptions<Builder> {
        private Builder() {}

        /** Start a broker, and wait until clients may connect. */
        public KafkaBroker start() {
            return KafkaBroker.start(this);
        }
    }

    static KafkaBroker start(BrokerOptions<?> options) {
        var broker = new KafkaBroker(started(options), options.topics);
        try {
            broker.createTopics();
            return broker;
        } catch (RuntimeException error) {
            broker.close();
            throw error;
        }
    }

    /** The addresses for a client's {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return started.addresses.get("listening");
    }

    /** The address of the schema registry, or null for none. */
    public String schemaRegistryUrl() {
        return started.addresses.get("schema registry");
    }

    /** The end of the broker's log. */
    public String log() {
        return started.log.toString();
    }

    /** Go back to the state before the first client, with the topics of the options. */
    @Override
    public void reset(Consumer<Options.Reset> options) {
        super.reset(options);
        createTopics();
    }

    private void createTopics() {
        topics.forEach((name, partitions) -> createTopic(name, topic -> topic.partitions(partitions).existOk(true)));
    }

    /** Stop the broker. Its data goes with it. */
    @Override
    public void close() {
        started.stop();
    }

    // -- the process

    private static Started started(BrokerOptions<?> options) {
        var commands = options.command.isEmpty() ? found(System.getenv("PYKAFKA_BROKER_PROGRAM")) : List.of(options.command);
        NotThere refused = null;
        for (List<String> command : commands) {
            var whole = new ArrayList<>(command);
            whole.addAll(options.flags());
            try {
                return new Started(whole);
            } catch (NotThere error) {
                if (refused == null) refused = error; // the first one names the command that a reader knows
            }
        }
        throw new IllegalStateException(
                refused.getMessage() + ": have pykafka-broker on the PATH, or set PYKAFKA_BROKER_PROGRAM", refused);
    }

    private static List<List<String>> found(String program) {
        if (program == null || program.isEmpty()) {
            return List.of(
                    List.of("pykafka-broker"),
                    List.of("python3", "-m", "pykafka_broker"),
                    List.of("python", "-m", "pykafka_broker"));
        }
        boolean isPython = Path.of(program).getFileName().toString().matches("(?i)(python|py)[\\d.]*(\\.exe)?");
        return List.of(isPython ? List.of(program, "-m", "pykafka_broker") : List.of(program));
    }

    /** A program that this machine does not have. */
    private static final class NotThere extends Exception {
        private static final long serialVersionUID = 1;

        NotThere(String message, Exception cause) {
            super(message, cause);
        }
    }

    /** The process, with the addresses that it has printed. */
    private static final class Started {
        final Map<String, String> addresses = new HashMap<>();
        final Tail log;
        private final Process process;

        Started(List<String> command) throws NotThere {
            var builder = new ProcessBuilder(command);
            // A test's broker has the test's settings, and none of the environment.
            builder.environment().keySet().removeIf(name -> name.startsWith("KAFKA_") || name.equals("CLUSTER_ID"));
            try {
                process = builder.start();
            } catch (IOException error) {
                throw new NotThere(command.get(0) + " is not there", error);
            }
            log = new Tail(process.getErrorStream());
            var ready = CompletableFuture.runAsync(this::readAddresses, task -> daemon("start", task).start());
            try {
                ready.get(START_TIMEOUT_S, TimeUnit.SECONDS);
            } catch (InterruptedException error) {
                process.destroyForcibly();
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while the broker started", error);
            } catch (Exception error) {
                process.destroyForcibly();
                throw new IllegalStateException(
                        "the broker was not ready within " + START_TIMEOUT_S + " s\n" + log, error);
            }
            if (!addresses.containsKey("listening")) {
                int code = process.onExit().join().exitValue();
                log.await();
                if (log.toString().contains("No module named pykafka_broker")) {
                    throw new NotThere(command.get(0) + " has no pykafka_broker", null);
                }
                throw new IllegalStateException("the broker ended with exit code " + code + "\n" + log);
            }
        }

        private void readAddresses() {
            try {
                BufferedReader lines = process.inputReader(StandardCharsets.UTF_8);
                String line = "";
                while (!addresses.containsKey("listening") && (line = lines.readLine()) != null) {
                    String[] parts = line.split(" on ", 2);
                    if (parts.length == 2) {
                        addresses.put(parts[0], parts[1]);
                    }
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        void stop() {
            try {
                process.getOutputStream().close(); // the broker ends with its standard input
            } catch (IOException error) {
                process.destroy();
            }
            var end = process.onExit().completeOnTimeout(null, STOP_TIMEOUT_S, TimeUnit.SECONDS).join();
            if (end == null) {
                process.destroyForcibly().onExit().join();
            }
        }
    }

    private static Thread daemon(String name, Runnable task) {
        var thread = new Thread(task, "kafka broker: " + name);
        thread.setDaemon(true);
        return thread;
    }

    /** The end of the log, which a thread reads; it passes on which configs are unknown. */
    private static final class Tail {
        private static final int MOST = 16_000;
        private static final String UNKNOWN_CONFIG = " WARNING pykafka_broker: unknown config ";
        private final StringBuilder text = new StringBuilder();
        private final Thread reader;

        Tail(InputStream stream) {
            reader = daemon("log", () -> read(new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))));
            reader.start();
        }

        private void read(BufferedReader lines) {
            try (lines) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    synchronized (text) {
                        text.append(line).append('\n');
                        text.delete(0, Math.max(0, text.length() - MOST));
                    }
                    int unknown = line.indexOf(UNKNOWN_CONFIG);
                    if (unknown >= 0) {
                        System.err.println(line.substring(unknown + " WARNING ".length()));
                    }
                }
            } catch (IOException error) {
                // the process has ended
            }
        }

        void await() {
            try {
                reader.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public String toString() {
            synchronized (text) {
                return text.toString();
            }
        }
    }
}
