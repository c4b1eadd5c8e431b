"""kafka-verifiable-consumer."""

from interop.tools.events import told
from interop.tools.preparing import make_topics, send
from interop.tools.steps import Step

SETTINGS = {"log.retention.ms": "-1", "offsets.topic.num.partitions": "1"}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"v": 1})
    send(bootstrap, "v", 6)


_COMMANDS = [
    "--topic v --group-id g1 --max-messages 6",
    "--topic v --group-id g2 --max-messages 6 --verbose",
    "--topic v --group-id g3 --max-messages 6 --enable-autocommit",
    "--topic v --group-id g4 --max-messages 6 --group-protocol consumer",
    "--topic v --group-id g5 --max-messages 6 --group-instance-id one --session-timeout 20000",
    "--topic v --group-id g6 --max-messages 6 --command-config '{file:client.id=me}' --reset-policy earliest",
    "--topic v --group-id g7 --max-messages 6 --close-timeout 20000",
    "--topic v --group-id g8 --max-messages 0 --close-timeout 0",
    "--topic v --group-id g8 --close-timeout x",
    "--topic v",
    "--group-id g7",
    "--topic v --group-id g7 --reset-policy never",
    "--topic v --group-id g7 --group-protocol old",
    "--topic v --group-id g7 --no-such-flag",
    "{nowhere} --topic v --group-id g7",
]
STEPS = [Step("verifiable-consumer", each, alike=told) for each in _COMMANDS]
STEPS += [Step("verifiable-consumer", each) for each in ("--",)]
IN_OUR_WORDS = {
    "--",
    "--group-id g7",
    "--topic v",
    "--topic v --group-id g7 --group-protocol old",
    "--topic v --group-id g7 --reset-policy never",
    "{nowhere} --topic v --group-id g7",
}
