"""kafka-verifiable-producer."""

from interop.tools.events import told
from interop.tools.preparing import make_topics
from interop.tools.steps import Step


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"v": 1})


_COMMANDS = [
    "--topic v --max-messages 3",
    "--topic v --max-messages 3 --value-prefix 7 --repeating-keys 2 --acks 1",
    "--topic v --max-messages 2 --throughput 100 --message-create-time 1700000000000",
    "--topic v --max-messages 1 --acks 0",
    "--topic v --max-messages 0",
    "--topic v --max-messages 1 --command-config '{file:client.id=me}'",
    "--topic v --max-messages x",
    "--topic v --acks 7 --max-messages 1",
    "--topic v --no-such-flag",
    "--max-messages 1",
    "{nowhere} --topic v --max-messages 1",
]
STEPS = [Step("verifiable-producer", each, alike=told) for each in _COMMANDS]
STEPS += [Step("verifiable-producer", each) for each in ("--",)]
STEPS += [
    Step("verifiable-producer", each, alike=told)
    for each in (
        "--topic v --max-messages 2 --value-prefix x",
        "--topic v --max-messages 2 --repeating-keys 0",
        "--topic v --max-messages 2 --repeating-keys 1",
        "--topic v --max-m 1",
        "--topic v --topic v --max-messages 1",
        "--topic 'a b' --max-messages 1",
        "--topic",
        "--topic v --max-messages 1 --command-config /no/such/file",
        "--topic v --max-messages 1 --throughput x",
        "--topic v --max-messages 1 extra",
        "{nowhere} --bootstrap-server nonsense --topic v --max-messages 1",
    )
]
IN_OUR_WORDS = {
    "--",
    "--topic v --acks 7 --max-messages 1",
    "{nowhere} --bootstrap-server nonsense --topic v --max-messages 1",
    "{nowhere} --topic v --max-messages 1",
}
