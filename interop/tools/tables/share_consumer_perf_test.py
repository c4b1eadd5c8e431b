"""kafka-share-consumer-perf-test: numbers are compared as shapes."""

import re

from interop.tools.preparing import make_topics, send
from interop.tools.steps import Step
from interop.tools.tables.console_share_consumer import SETTINGS as GROUPS
from interop.tools.tables.consumer_perf_test import shapes as of_one

TOOL = "share-consumer-perf-test"
SETTINGS = {"log.retention.ms": "-1", **GROUPS}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"c": 1})
    send(bootstrap, "c", 10)


def shapes(out: str) -> str:
    """Return the output without figures."""
    return of_one(re.sub(r"(?<=consumption metrics-) ", ", ", re.sub(r"\d+(?= for share consumer)", "N", out)))


_FROM_START = "share.auto.offset.reset=earliest"
_GROUPS = [f"g{number}" for number in range(1, 16)] + ["perf-share-consumer"]
_COMMANDS = [
    "--topic c --group g1 --num-records 10",
    "--topic c --group g2 --num-records 10 --hide-header",
    "--topic c --group g3 --num-records 10 --show-detailed-stats --reporting-interval 1",
    "--topic c --group g4 --num-records 5",
    "--topic c --group g5 --num-records 100 --timeout 4000",
    "--topic c --group g6 --messages 10",
    "--topic c --group g7 --messages 10 --print-metrics",
    "--topic c --group g8 --num-records 10 --date-format yyyy",
    "--topic c --group g9 --num-records 10 --fetch-size 100000 --socket-buffer-size 5000",
    "--topic c --group g10 --num-records 10 --consumer.config '{file:max.poll.records=3}'",
    "--topic c --group g11 --num-records 10 --command-config '{file:max.poll.records=3}' --command-property a=b",
    "--topic c --num-records 10",
    "--topic c --group g12 --num-records 10 --threads 2",
    "--topic c --group g13 --num-records 10 --show-consumer-stats",
    "--topic c --group g14 --num-records 10 --threads 2 --show-consumer-stats",
    "--topic c --group g15 --num-records 10 --show-consumer-stats --show-detailed-stats --reporting-interval 1",
    "--topic c --messages 10 --num-records 10",
    "--topic c",
    "--num-records 10",
    "--topic c --include c --num-records 10",
    "--topic c --num-records 10 --no-such-flag",
    "{nowhere} --topic c --num-records 10",
    "{nowhere} --bootstrap-server localhost:1 --topic c --num-records 0",
    "--topic c --num-records 10 --command-config /no/such/file",
    "--topic c --num-records 0 --reporting-interval 0",
    "--topic c --num-records x",
    "--topic c --num-records 10 --fetch-size x",
    "--topic c --num-records 10 --threads 0",
    "--topic c --num-records 10 --threads x",
    "--topic c --topic c --num-records 10",
    "--topic c --group g1 --num-records 0",
    "--topic c --group g1 --num-records 0 --command-property a",
    "--topic c --group g1 --num-records 0 extra",
    "--topic missing --group g1 --num-records 1 --timeout 300",
    "--topic c --num-records 10 --from-latest",
    "--topic c --num-records 5 --date-format qqq",
]
STEPS = [
    Step("configs", f"--alter --entity-type groups --entity-name {group} --add-config {_FROM_START}")
    for group in _GROUPS
]
_LATE = "Kafka's script prints the names of the columns before it looks at these"
_LATER = {
    "--topic c --num-records 10 --command-config /no/such/file",
    "--topic c --num-records x",
    "--topic c --num-records 10 --fetch-size x",
    "--topic c --num-records 10 --threads 0",
    "--topic c --num-records 10 --threads x",
    "--topic c --topic c --num-records 10",
    "--topic c --num-records 5 --date-format qqq",
}
STEPS += [Step(TOOL, each, alike=shapes, why_not=_LATE if each in _LATER else "") for each in _COMMANDS]
STEPS += [Step(TOOL, each) for each in ("--", "{nowhere}")]
IN_OUR_WORDS = {
    "--",
    "--num-records 10",
    "--topic c",
    "--topic c --include c --num-records 10",
    "--topic c --messages 10 --num-records 10",
    "{nowhere}",
}
