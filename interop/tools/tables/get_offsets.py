"""kafka-get-offsets."""

from interop.tools.preparing import commit, make_topics, send
from interop.tools.steps import UNREACHABLE, Step, steps

SETTINGS = {"offsets.topic.num.partitions": "2"}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "three": 3, "other.topic": 1, "empty": 2})
    send(bootstrap, "one", 5)
    for partition in range(3):
        send(bootstrap, "three", partition + 1, partition)
    send(bootstrap, "other.topic", 2)
    commit(bootstrap, "group", {("one", 0): 1})


STEPS: list[Step] = steps(
    "get-offsets",
    "--exclude-internal-topics",
    "--topic one",
    "--topic one --time -1",
    "--topic one --time latest",
    "--topic one --time -2",
    "--topic one --time earliest",
    "--topic one --time -3",
    "--topic one --time max-timestamp",
    "--topic one --time -4",
    "--topic one --time earliest-local",
    "--topic one --time -5",
    "--topic one --time latest-tiered",
    "--topic one --time -6",
    "--topic one --time earliest-pending-upload",
    "--topic one --time 1700007200000",
    "--topic one --time 1700007200001",
    "--topic one --time 1900000000000",
    "--topic one --time 0",
    "--topic one --time -7",
    "--topic one --time newest",
    "--topic empty --time -3",
    "--topic empty --time 5",
    "--topic empty",
    "--topic 'three' --partitions 0,2",
    "--topic 'three' --partitions 7",
    "--topic 'three' --partitions x",
    "--topic 'three' --partitions ''",
    "--topic 'three|one'",
    "--topic 't.*|o.*'",
    "--topic 'other.topic'",
    "--topic 'other.+'",
    "--topic one,three",
    "--topic unknown",
    "--topic unknown --partitions 0",
    "--topic '['",
    "--topic-partitions three:0",
    "--topic-partitions three:0,one",
    "--topic-partitions three:1-",
    "--topic-partitions three:-2",
    "--topic-partitions three:0-2",
    "--topic-partitions three:2-0",
    "--topic-partitions :0 --exclude-internal-topics",
    "--topic-partitions 't.*:1,o.*:0'",
    "--topic-partitions three:9",
    "--topic-partitions three:x",
    "--topic-partitions three:1:2",
    "--topic-partitions ''",
    "--topic-partitions three:1,",
    "--topic-partitions ,one --exclude-internal-topics",
    "--topic-partitions three:99999999999",
    "--topic-partitions three:0-99999999999",
    "--topic three --partitions 1_0",
    "--topic three --partitions ' 1'",
    "--topic three --partitions 0,",
    "--topic three --partitions 0,,1",
    "--topic three --partitions 99999999999",
    "--topic one --time 1_000",
    "--topic one --time 99999999999999999999",
    "--topic ''",
    "-topic one",
    "--topic one -- extra",
    "--topic one --exclude-internal",
    "--topic-partitions one --topic three",
    "--topic-partitions one --partitions 0",
    "--partitions 1 --exclude-internal-topics",
    "--topic __consumer_offsets --time earliest",
    "--topic __consumer_offsets --exclude-internal-topics",
    "--topic-partitions __consumer_offsets:0 --time earliest",
    "--time earliest",
    "--command-config '{file:client.id=me}' --topic one",
    "--command-config /no/such/file --topic one",
    "--topic one extra",
    "--no-such-flag",
    "--topic",
    "{nowhere} --topic one",
    UNREACHABLE + " --topic one",
    "{nowhere} --bootstrap-server nowhere --topic one",
    "{nowhere} --bootstrap-server {bootstrap},{bootstrap} --topic one",
)
STEPS += steps(
    "get-offsets",
    "extra",
    "--command-config",
    "{nowhere}",
)
IN_OUR_WORDS = {
    "--command-config",
    "--no-such-flag",
    "--topic",
    "--topic '['",
    "--topic one --exclude-internal",
    "--topic-partitions three:0-99999999999",
    "--topic-partitions three:1:2",
    "--topic-partitions three:99999999999",
    "--topic-partitions three:x",
    "{nowhere}",
    "{nowhere} --bootstrap-server localhost:1 --command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' --topic one",  # noqa: E501
    "{nowhere} --bootstrap-server nowhere --topic one",
}
