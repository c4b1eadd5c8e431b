"""kafka-verifiable-share-consumer."""

import json
from typing import Any

from interop.tools.events import told as events
from interop.tools.preparing import make_topics, send
from interop.tools.steps import Step
from interop.tools.tables.console_share_consumer import SETTINGS as GROUPS

SETTINGS = {"log.retention.ms": "-1", **GROUPS}
TOOL = "verifiable-share-consumer"


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"v": 1, "two": 2})
    send(bootstrap, "v", 6)
    for partition in range(2):
        send(bootstrap, "two", 3, partition)


def told(out: str) -> str:
    """Order offsets that come from a set, and join events of several partitions: one poll may bring all of them."""
    lines: list[dict[str, Any]] = []
    for line in events(out).splitlines():
        event = json.loads(line)
        for each in event.get("partitions", ()):
            each["offsets"].sort()
        same = [each for each in lines if each["name"] == event["name"] and each.get("partitions", [])[1:] == []]
        if "partitions" in event and same and same[0]["partitions"][0]["topic"] == "two":
            same[0]["partitions"] += event["partitions"]
            same[0]["count"] += event["count"]
        else:
            lines.append(event)
    return "\n".join(json.dumps(event) for event in lines)


_FROM_START = "--offset-reset-strategy earliest"
_COMMANDS = [
    f"--topic v --group-id g1 --max-messages 6 {_FROM_START}",
    f"--topic v --group-id g2 --max-messages 6 {_FROM_START} --verbose",
    f"--topic v --group-id g3 --max-messages 6 {_FROM_START} --acknowledgement-mode sync",
    f"--topic v --group-id g4 --max-messages 6 {_FROM_START} --acknowledgement-mode async",
    f"--topic v --group-id g5 --max-messages 9 {_FROM_START} --acknowledgement-mode sync --ack-pattern accept,release",
    f"--topic v --group-id g6 --max-messages 9 {_FROM_START} --acknowledgement-mode sync --ack-pattern renew,accept",
    f"--topic v --group-id g7 --max-messages 6 {_FROM_START} --acknowledgement-mode async --ack-pattern Reject",
    f"--topic two --group-id g8 --max-messages 6 {_FROM_START} --acknowledgement-mode sync",
    f"--topic v --group-id g9 --max-messages 6 {_FROM_START} --command-config '{{file:client.id=me}}'",
    f"--topic v --group-id g10 --max-messages 0 {_FROM_START}",
    "--topic v --group-id g11 --max-messages 0",
    "--topic v --group-id g11 --max-messages 0 --offset-reset-strategy latest",
    "--topic v",
    "--group-id g11",
    "--topic v --group-id g11 --acknowledgement-mode never",
    "--topic v --group-id g11 --offset-reset-strategy never",
    "--topic v --group-id g11 --ack-pattern accept",
    "--topic v --group-id g11 --acknowledgement-mode sync --ack-pattern renew",
    "--topic v --group-id g11 --acknowledgement-mode sync --ack-pattern keep",
    "--topic v --group-id g11 --acknowledgement-mode sync --ack-pattern '' --max-messages 0",
    "--topic v --group-id g11 --max-messages x",
    "--topic v --group-id g11 --no-such-flag",
    "--topic v --group-id '' --max-messages 0",
    "--topic v --group-id g11 --command-config /no/such/file",
    "--topic v --group-id g11 --consumer.config /no/such/file",
    "{nowhere} --topic v --group-id g11",
]
STEPS = [Step(TOOL, each, alike=told) for each in _COMMANDS]
STEPS += [Step(TOOL, each) for each in ("--",)]
IN_OUR_WORDS = {"--", *_COMMANDS[12:]}
