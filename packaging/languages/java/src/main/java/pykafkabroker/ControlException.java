package pykafkabroker;

/** A refusal of the broker, with its sentence. */
public class ControlException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;
    private final String code;

    ControlException(int status, String detail, String code) {
        super(detail);
        this.status = status;
        this.code = code;
    }

    /** The status of HTTP. */
    public int status() {
        return status;
    }

    /** The name of Kafka's error, or null if none is behind it. */
    public String code() {
        return code;
    }
}
