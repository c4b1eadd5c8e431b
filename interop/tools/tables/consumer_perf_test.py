"""kafka-consumer-perf-test: numbers are compared as shapes."""

import re

from interop.tools.preparing import make_topics, send
from interop.tools.steps import Step

SETTINGS = {"log.retention.ms": "-1", "offsets.topic.num.partitions": "1"}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"c": 1})
    send(bootstrap, "c", 10)


def shapes(out: str) -> str:
    """Measured figures aside; so are those of the client's own metrics, and how many lines of details there are."""
    lines = [each for each in out.splitlines() if not re.match(r"[\w.-]+:[\w.-]+:", each)]
    measured = [re.sub(r"(?<=, )-?(\d[\d.,]*|NaN|Infinity)(?=,|$)", "N", re.sub(" +", " ", each)) for each in lines]
    return "\n".join(dict.fromkeys(re.sub(r"20\d\d-\S+ \S+", "DATE,", each) for each in measured))


_COMMANDS = [
    "--topic c --num-records 10",
    "--topic c --num-records 10 --hide-header",
    "--topic c --num-records 10 --show-detailed-stats --reporting-interval 1",
    "--topic c --num-records 5",
    "--topic c --num-records 100 --timeout 300",
    "--topic c --num-records 10 --timeout 300 --from-latest",
    "--topic c --messages 10",
    "--topic c --messages 10 --print-metrics",
    "--include 'c.*' --num-records 10 --date-format yyyy",
    "--topic c --num-records 10 --group cg --fetch-size 100000 --socket-buffer-size 5000",
    "--topic c --num-records 10 --consumer.config '{file:max.poll.records=3}'",
    "--topic c --num-records 10 --command-config '{file:max.poll.records=3}' --command-property max.poll.records=4",
    "--topic c --messages 10 --num-records 10",
    "--topic c",
    "--num-records 10",
    "--topic c --include c --num-records 10",
    "--topic c --num-records 10 --no-such-flag",
    "{nowhere} --topic c --num-records 10",
    "{nowhere} --bootstrap-server localhost:1 --topic c --num-records 10 --timeout 300",
]
STEPS = [Step("consumer-perf-test", each, alike=shapes) for each in _COMMANDS]
STEPS += [
    Step("consumer-perf-test", f"--topic c --num-records 5 --date-format {each}")
    for each in ("qqq", '"yyyy\'"', "XXXX", "\"''x''\"")
]
_HEADER = "Kafka's script prints the names of the columns before it looks at these"
_WRONG = [
    "--topic c --num-records 10 --command-config /no/such/file",
    "--topic c --num-records 10 --reporting-interval 0",
    "--topic c --num-records x",
    "--topic c --num-records 10 --fetch-size x",
    "--topic c --topic c --num-records 10",
]
STEPS += [Step("consumer-perf-test", each, why_not=_HEADER) for each in _WRONG]
STEPS += [
    Step("consumer-perf-test", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
STEPS += [
    Step("consumer-perf-test", each, alike=shapes)
    for each in (
        "--topic c --num-records 0",
        "--topic c --num-records -1 --timeout 300",
        "--topic c --num-records 10 --command-property a",
        "--topic c --num-records 10 --show-detailed-stats --hide-header --reporting-interval 1",
        "--topic c --num-records 10 --command-property group.protocol=consumer",
        "--topic missing --num-records 1 --timeout 300",
        "--topic c --num-records 10 extra",
    )
]
STEPS += [
    Step("consumer-perf-test", each, why_not=_HEADER)
    for each in (
        "--include '[' --num-records 1 --timeout 300",
        "{nowhere} --bootstrap-server nonsense --topic c --num-records 10",
    )
]
IN_OUR_WORDS = {
    "--",
    "--num-records 10",
    "--topic c",
    "--topic c --include c --num-records 10",
    "--topic c --messages 10 --num-records 10",
    "{nowhere}",
}
