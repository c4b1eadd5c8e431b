"""kafka-topics."""

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from interop.tools.preparing import make_topics
from interop.tools.steps import Step, sorted_lines, steps

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"

_ANY_ORDER = "flags are named in no order"


_known: dict[str, str] = {}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"known": 2})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection(["known"]))["known"].result(60)
    _known["id"] = str(described.topic_id)


def _same_order(out: str) -> str:
    """Topics and their configs come from hash tables."""
    lines = []
    for line in out.splitlines():
        head, configs, rest = line.partition("Configs: ")
        lines.append(head + configs + ",".join(sorted(rest.split(","))))
    return sorted_lines("\n".join(lines))


def _described(*filters: str) -> list[Step]:
    return [Step("topics", f"--describe {each}".strip(), alike=_same_order, known=_known) for each in filters]


STEPS: list[Step] = steps(
    "topics",
    "--list",
    "--create --topic plain",
    "--create --topic plain",
    "--create --topic plain --if-not-exists",
    "--create --topic sized --partitions 3 --replication-factor 1",
    "--create --topic configured --partitions 1 --config cleanup.policy=compact --config min.insync.replicas=2",
    "--create --topic assigned --replica-assignment 1,1,1",
    "--create --topic assigned-2 --replica-assignment 1:1",
    "--create --topic assigned-2 --replica-assignment 1,1:2",
    "--create --topic assigned-2 --replica-assignment 7",
    "--create --topic assigned-2 --replica-assignment one",
    "--create --topic assigned-2 --replica-assignment 1 --partitions 2",
    "--create --topic assigned-2 --replica-assignment 1 --replication-factor 1",
    "--create --topic with.dot_",
    "--create --topic with_dot_",
    "--create --topic wide --replication-factor 3",
    "--create --topic none --partitions 0",
    "--create --topic none --replication-factor 0",
    "--create --topic none --replication-factor 40000",
    "--create --topic none --partitions many",
    "--create --topic 'bad name'",
    "--create --topic ..",
    "--create --topic unknown-key --config no.such.key=1",
    "--create --topic bad-value --config retention.ms=soon",
    "--create --topic no-value --config retention.ms",
    "--create",
    "--create --list",
    "--create --topic one --if-exists",
    "--create --topic one --topic two",
    "--create --topic one --under-replicated-partitions",
    "--topic plain",
    "--list",
    "--list --topic plain",
    "--list --topic 's.*|plain'",
    "--list --topic missing",
    "--list --exclude-internal",
    "--list --exclude-internal --topic sized",
    "--list --if-exists",
    "--list --partitions 1",
    "--list --config a=b",
    "--list --describe",
    *_described(
        "",
        "--topic sized",
        "--topic 'conf.*,plain'",
        "--topic sized,plain",
        "--topic missing",
        "--topic missing --if-exists",
        "--topic '['",
        "--topic-id AAAAAAAAAAAAAAAAAAAAAA",
        "--topic-id vzdFkeVGTZq3yR5zXE_fdg",
    ),
    Step("topics", "--describe --topic-id short", why_not="the text is of Java's decoder of base64"),
    *_described(
        "--topic-id vzdFkeVGTZq3yR5zXE_fdg --if-exists",
        "--topic plain --topic-id vzdFkeVGTZq3yR5zXE_fdg",
        "--topics-with-overrides",
        "--under-replicated-partitions",
        "--under-min-isr-partitions",
        "--at-min-isr-partitions",
        "--unavailable-partitions",
        "--unavailable-partitions --under-min-isr-partitions",
        "--under-replicated-partitions --at-min-isr-partitions",
        "--topics-with-overrides --under-replicated-partitions",
        "--topic sized --partition-size-limit-per-response 2",
        "--exclude-internal --topic sized",
        "--if-not-exists",
        "--partitions 2",
        "--config a=b",
        "--replication-factor 1",
    ),
    "--alter --topic sized --partitions 5",
    "--alter --topic sized --partitions 4",
    "--alter --topic sized --partitions 5",
    "--alter --topic sized --partitions 0",
    "--alter --topic sized --partitions 6 --replica-assignment 1,1,1,1,1,1",
    "--alter --topic sized --partitions 7 --replica-assignment 1,1,1,1,1,1",
    "--alter --topic sized --replica-assignment 1,1,1,1,1,1,1",
    "--alter --topic sized --partitions 8 --replica-assignment 1,1,1,1,1,1,1,9",
    "--alter --topic sized",
    "--alter --partitions 5",
    "--alter --topic missing --partitions 5",
    "--alter --topic missing --partitions 5 --if-exists",
    "--alter --topic 'plain|assigned' --partitions 4",
    Step("topics", "--alter --topic sized --config retention.ms=1", other_errors=_ANY_ORDER),
    "--alter --topic sized --delete-config retention.ms",
    "--alter --topic sized --partitions 9 --replication-factor 1",
    *_described(
        "--topic 'sized|assigned'",
    ),
    "--list --topic-id vzdFkeVGTZq3yR5zXE_fdg",
    "--list --under-replicated-partitions",
    "--list --topics-with-overrides",
    "--list --replica-assignment 1",
    "--list --if-not-exists",
    "--list --partition-size-limit-per-response 2",
    "--create --topic size-limit --partition-size-limit-per-response 2",
    "--create --topic id --topic-id vzdFkeVGTZq3yR5zXE_fdg",
    "--create --topic internal --exclude-internal",
    "--create --topic spaced --config ' retention.ms = 5 '",
    "--alter --topic sized --partitions 9 --if-not-exists",
    "--alter --topic sized --partitions 9 --topics-with-overrides",
    "--alter --topic sized --partitions 9 --at-min-isr-partitions",
    "--delete --topic-id vzdFkeVGTZq3yR5zXE_fdg",
    "--delete",
    "--delete --topic missing",
    "--delete --topic missing --if-exists",
    "--delete --topic plain",
    "--delete --topic 'ass.*'",
    "--delete --topic sized --partitions 1",
    "--delete --topic sized --exclude-internal",
    "--list",
    "",
    "--no-such-flag",
    "--list extra",
    "--create --topic ''",
    "--create --topic none --partitions 1_0",
    "--create --topic none --partitions ' 2'",
    "--create --topic none --partitions 99999999999",
    "--create --topic none --replica-assignment 1_0",
    "--create --topic none --config max.message.bytes=",
    "--create --topic none --config compression.type=zstd,retention.ms=5",
    "--create --topic none --config cleanup.policy=[compact,delete]",
    "--create --topic assigned-3 --replica-assignment 1,",
    "--create --topic assigned-4 --replica-assignment ''",
    "--delete --topic ''",
    "--alter --topic '' --partitions 3",
    *_described("--topic ''", "--topic=assigned-3"),
    "-list",
    "--list=true",
    "-list -topic assigned-3",
    "--list -- extra --no-such-flag",
    "--lis",
    "--list --topi assigned-3",
    "{nowhere} --list",
    "{nowhere} --list --bootstrap-server nonsense",
    "{nowhere} --list --bootstrap-server no.such.host.invalid:9092",
    "{nowhere} --list --bootstrap-server no.such.host.invalid:9092,{bootstrap}",
    "{nowhere} --list --bootstrap-server ,{bootstrap}",
    "{nowhere} --list --bootstrap-server {bootstrap},",
    f"{{nowhere}} --list --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
    f"{{nowhere}} --create --topic late --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
    "--list --command-config /no/such/file",
    "--list --bootstrap-server",
)
STEPS += [
    *_described(
        "--topic-id {id}",
        "--topic-id {id} --topic nothing",
        "--topic-id {id} --topics-with-overrides",
        "--topic-id {id} --at-min-isr-partitions",
        "--topic-id {id} --if-exists",
        "--topic known --describe",
        "--topic known extra",
    ),
    *steps(
        "topics",
        "--list --topic",
        "--create --topic x --config",
        "--create --topic x --partitions",
        "--create --topic=",
        "--describe --topic known --partition-size-limit-per-response many",
        "--list --bootstrap-controller {bootstrap}",
        "--create --topic 'x' --replica-assignment 0",
        "--create --topic known-2 --config retention.ms=-1 --config retention.ms=7 --partitions 2",
        "--create --topic known-3 --config cleanup.policy=nothing",
        "--delete --topic known --topic-id AAAAAAAAAAAAAAAAAAAAAA",
        "--delete --topic '['",
        "--delete --topic __consumer_offsets",
        "--alter --topic known --partitions x",
        "--alter --topic known --partitions 2",
        "--alter --topic known --partitions -1",
        "{nowhere} --list --bootstrap-server {bootstrap} --command-config '{file:security.protocol=NONE}'",
        "{nowhere} --list --bootstrap-server localhost:99999",
    ),
]
IN_OUR_WORDS = {
    "{nowhere} --list --bootstrap-server ,{bootstrap}",
    "{nowhere} --list --bootstrap-server {bootstrap} --command-config '{file:security.protocol=NONE}'",
    "{nowhere} --list --bootstrap-server {bootstrap},",
}
