"""kafka-log-dirs."""

import json

from interop.tools.preparing import make_topics, send
from interop.tools.steps import UNREACHABLE, Step


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "two": 2})
    send(bootstrap, "one", 5)
    send(bootstrap, "two", 3)


def _without_places(out: str) -> str:
    """Partitions come in the order of a hash."""
    lines = out.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("{"):
            told = json.loads(line)
            for directory in (each for broker in told["brokers"] for each in broker["logDirs"]):
                directory["partitions"].sort(key=lambda each: each["partition"])
                assert directory.pop("logDir").startswith("/")
            lines[index] = json.dumps(told)
    return "\n".join(lines)


COMMANDS = (
    "--describe",
    "--describe --topic-list one",
    "--describe --topic-list one,two",
    "--describe --topic-list unknown",
    "--describe --topic-list ''",
    "--describe --topic-list ' one '",
    "--describe --broker-list 1",
    "--describe --broker-list 1,1",
    "--describe --broker-list 1 --topic-list two",
    "--describe --broker-list 7",
    "--describe --broker-list 1,7",
    "--describe --broker-list x",
    "--describe --broker-list 1_0",
    "--describe --broker-list 99999999999",
    "-describe -topic-list one",
    "--describe --broker-list ''",
    "--describe --broker-list ,",
    "--describe --topic-list ,",
    "--describe --command-config '{file:client.id=me}' --topic-list one",
    "--describe --command-config /no/such/file",
    "",
    "--topic-list one",
    "--no-such-flag",
    "{nowhere} --describe",
    UNREACHABLE + " --describe",
    UNREACHABLE + " --describe --broker-list 1",
)
STEPS = [Step("log-dirs", each, alike=_without_places) for each in COMMANDS]
STEPS += [
    Step("log-dirs", each, alike=_without_places)
    for each in (
        "--describe --describe",
        "--describe extra",
        "--describe --broker-list",
        "--describe --broker-list 1 --broker-list 1",
        "--describe --broker-list '1, 1'",
        "--describe --broker-list -1",
        "--describe --topic-list one,unknown,two",
        "--describe --topic-list one --topic-list two",
        "--describe --topic-list 'o.*'",
        "--describe --command-config",
        "{nowhere} --describe --bootstrap-server nonsense",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "--describe --broker-list '1, 1'",
    "--describe --broker-list 1_0",
    "--describe --broker-list 99999999999",
    "--describe --broker-list x",
    "{nowhere}",
}
