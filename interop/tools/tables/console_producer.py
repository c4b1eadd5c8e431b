"""kafka-console-producer: what it has written is read with kafka-console-consumer."""

from interop.tools.preparing import make_topics
from interop.tools.steps import Step

_ALL = [f"print.{each}=true" for each in ("key", "value", "headers", "partition", "offset")]
_COUNT = 40
_ONCE = "--command-config '{file:max.block.ms=300\\nrequest.timeout.ms=200\\ndelivery.timeout.ms=1500}'"


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {f"t{number}": 1 for number in range(_COUNT)})
    make_topics(bootstrap, {"six": 6})
    make_topics(bootstrap, {"small": 1}, {"max.message.bytes": "200"})


def _written(number: int, text: str, flags: str, count: int) -> list[Step]:
    """Lines are sent, and read again with everything that there is to see."""
    shown = " ".join(f"--formatter-property {each}" for each in _ALL)
    wait = f"--max-messages {count} --timeout-ms 5000" if count else "--timeout-ms 300"
    return [
        Step("console-producer", f"--topic t{number} {flags}", stdin=text),
        Step("console-consumer", f"--topic t{number} --from-beginning {wait} {shown}"),
    ]


_KEYS = "--reader-property parse.key=true"
_HEADERS = "--reader-property parse.headers=true"
_SENT = [
    ("a\nb\n\nc", "", 4),
    ("k1\tv1\nk2\t\n\tv3\n", _KEYS, 3),
    ("k1:v1:v2\n", f"{_KEYS} --reader-property key.separator=:", 1),
    ("k1=>v1\n", f"{_KEYS} --reader-property key.separator='=>'", 1),
    ("no separator\n", _KEYS, 0),
    ("k1\tv1\nno separator\nk2\tv2", _KEYS, 1),
    ("k1\tv1\nno separator\nk2\tv2", f"{_KEYS} --reader-property ignore.error=true", 3),
    ("h1:v1,h2:v2\tvalue\n", _HEADERS, 1),
    ("h1:v1,h2:v2\tkey\tvalue\n", f"{_HEADERS} {_KEYS}", 1),
    (
        "h1:v1;h2:v2|value\n",
        f"{_HEADERS} --reader-property headers.separator=; --reader-property headers.delimiter='|'",
        1,
    ),
    ("h1=v1\tvalue\n", f"{_HEADERS} --reader-property headers.key.separator==", 1),
    ("h1\tvalue\n", _HEADERS, 0),
    ("value\n", _HEADERS, 0),
    ("h1\tvalue\nvalue\n", f"{_HEADERS} --reader-property ignore.error=true", 2),
    (":v1\tvalue\n", _HEADERS, 1),
    ("NULL\tNULL\nk\tNULL\nNULL\tv\n", f"{_KEYS} --reader-property null.marker=NULL", 3),
    ("h1:NULL\tv\n", f"{_HEADERS} --reader-property null.marker=NULL", 1),
    ("NULL\tk\tv\n", f"{_HEADERS} {_KEYS} --reader-property null.marker=NULL", 1),
    ("k\tv\n", "--property parse.key=true", 1),
    ("k:v\n", "--reader-config '{file:parse.key=true\\nkey.separator=:}'", 1),
    ("k;v\n", "--reader-config '{file:parse.key=true\\nkey.separator=:}' --reader-property 'key.separator=;'", 1),
    ("one\ntwo\n", "--sync", 2),
    ("one\n", "--compression-codec", 1),
    ("one\n", "--compression-codec zstd", 1),
    ("one\n", "--compression-codec=lz4 --batch-size 1 --timeout 5 --max-block-ms 2000", 1),
    ("one\n", "--producer-property acks=1 --request-required-acks 0", 1),
    ("one\n", "--request-required-acks all", 1),
    ("one\n", "--request-required-acks 1 --request-timeout-ms 3000 --retry-backoff-ms 50", 1),
    ("one\n", "--command-property linger.ms=1 --command-property client.id=me", 1),
    ("one\n", "--producer.config '{file:linger.ms=1}' --max-memory-bytes 1000000 --metadata-expiry-ms 3000", 1),
    ("one\n", "--max-partition-memory-bytes 300 --socket-buffer-size 5000 --message-send-max-retries 2", 1),
    ("Grüße 😀\n", "", 1),
    ("a\r\nb\n", "", 2),
    ("one\n", "--line-reader org.apache.kafka.tools.LineMessageReader", 1),
]

STEPS: list[Step] = [step for number, each in enumerate(_SENT) for step in _written(number, *each)]
STEPS += [
    Step("console-producer", "--topic six --reader-property parse.key=true", stdin="a\t1\nb\t2\nc\t3\nkey\t4\n"),
    *[
        Step("console-consumer", f"--topic six --partition {each} --offset earliest --timeout-ms 300")
        for each in range(6)
    ],
    Step("console-producer", "--topic fresh", stdin="made by it\n"),
    Step("console-consumer", "--topic fresh --from-beginning --max-messages 1 --timeout-ms 5000"),
    Step("console-producer", "--topic small --sync", stdin="x" * 300 + "\nfits too\n"),
    Step("console-consumer", "--topic small --from-beginning --timeout-ms 300"),
    *[
        Step("console-producer", command, stdin="x\n")
        for command in (
            "",
            "--topic",
            "--no-such-flag --topic t0",
            "--topic t0 --compression-codec brotli",
            "--topic t0 --batch-size many",
            "--topic t0 --reader-property parse.key",
            "--topic t0 --reader-property nonsense=1",
            "--topic t0 --reader-property parse.key=true --property parse.key=true",
            "--topic t0 --command-property acks=1 --producer-property linger.ms=1",
            "--topic t0 --command-property acks",
            "--topic t0 --command-config '{file:a=b}' --producer.config '{file:a=b}'",
            "--topic t0 --command-config /no/such/file",
            "--topic t0 --reader-config /no/such/file",
            "--topic t0 --line-reader org.example.None",
            "--topic t0 --request-required-acks 2",
            "--topic t0 --command-property security.protocol=NONE",
            "--topic 'a b'",
            "--topic 'a b' --sync",
            "--topic t0 --topic t1",
            "{nowhere} --topic t0",
            "{nowhere} --bootstrap-server nowhere --topic t0",
            "{nowhere} --bootstrap-server localhost:1 --topic t0 " + _ONCE,
            "{nowhere} --bootstrap-server localhost:1 --topic t0 --max-block-ms 300",
            "{nowhere} --bootstrap-server localhost:1 --topic t0 --sync --max-block-ms 300",
        )
    ],
]
STEPS += [
    step
    for number, each in enumerate(
        (
            ("", "", 0),
            ("\n\n", "", 2),
            ("a", "", 1),
            ("k\tv\n", f"{_KEYS} --reader-property key.separator=", 0),
            ("k\tv\n", "--reader-property parse.key=yes", 1),
            ("one\n", "extra", 1),
        ),
        len(_SENT),
    )
    for step in _written(number, *each)
]
STEPS += [
    Step("console-producer", command, stdin="x\n")
    for command in (
        "--topic t0 --sync --sync",
        "--topic t0 --max-block-ms x",
        "--topic t0 --timeout",
        "--topic t0 --batch-size 0",
        "--topic ''",
        "--topic t0 --line-reader java.lang.String",
        "--topic t0 --property",
        "--topic t0 --command-property key.serializer=nothing",
        *(
            f"--topic t0 --{flag} -1"
            for flag in (
                "batch-size",
                "max-block-ms",
                "max-memory-bytes",
                "max-partition-memory-bytes",
                "message-send-max-retries",
                "metadata-expiry-ms",
                "request-timeout-ms",
                "retry-backoff-ms",
                "socket-buffer-size",
                "timeout",
            )
        ),
        "--topic t0 --socket-buffer-size -2",
        "--topic t0 --compression-codec ''",
        "--topic t0 --command-property compression.type=",
        "--topic t0 --command-property max.request.size=-1",
        "--topic t0 --command-property compression.gzip.level=77",
        "--topic t0 --command-property compression.zstd.level=99",
    )
]
IN_OUR_WORDS = {
    "--topic ''",
    "--topic 'a b'",
    "--topic t0 --command-config '{file:a=b}' --producer.config '{file:a=b}'",
    "--topic t0 --command-property acks=1 --producer-property linger.ms=1",
    "--topic t0 --command-property security.protocol=NONE",
    "--topic t0 --from-beginning --max-messages 4 --timeout-ms 5000 --formatter-property print.key=true --formatter-property print.value=true --formatter-property print.headers=true --formatter-property print.partition=true --formatter-property print.offset=true",  # noqa: E501
    "--topic t0 --line-reader java.lang.String",
    "--topic t0 --line-reader org.example.None",
    "--topic t0 --reader-property parse.key=true --property parse.key=true",
    "{nowhere} --bootstrap-server localhost:1 --topic t0 --command-config '{file:max.block.ms=300\\nrequest.timeout.ms=200\\ndelivery.timeout.ms=1500}'",  # noqa: E501
    "{nowhere} --bootstrap-server localhost:1 --topic t0 --max-block-ms 300",
    "{nowhere} --bootstrap-server nowhere --topic t0",
    "{nowhere} --topic t0",
}
