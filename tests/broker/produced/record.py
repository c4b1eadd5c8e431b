"""Records what a real Kafka answers to every kind: `python -m tests.broker.produced.record [RELEASE FILE]`.

Needs Java and the jars. Each answer is a line of the file, `answers.json` without a name: error code, whether there is
a text, the records that are named, and of what was accepted the header that Kafka has written.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from interop.jars import KAFKA_VERSION
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.broker.produced.asking import ask
from tests.broker.produced.kinds import TOPICS, kinds


def main(release: str = KAFKA_VERSION, file: str = "answers.json") -> None:
    with RealKafka({"socket.request.max.bytes": "200000000"}, heap="1500m", release=release) as kafka:
        client = RawClient(kafka.bootstrap_servers, timeout_s=60)
        topics = [
            CreatableTopic(name, 1, 1, [], [CreatableTopicConfig(*pair) for pair in configs.items()])
            for name, configs in TOPICS.items()
        ]
        client.call(CreateTopicsRequest(topics))
        time.sleep(2)  # until it leads them
        answers = {kind.name: ask(client.call, kind) for kind in kinds()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    Path(__file__).with_name(file).write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(f"{len(answers)} kinds, {sum(not a['error'] for a in answers.values())} accepted")


if __name__ == "__main__":
    main(*sys.argv[1:])
