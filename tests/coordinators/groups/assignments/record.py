"""Record which partitions the assignor `uniform` of a running Apache Kafka gives to members with different topics.

python -m tests.coordinators.groups.assignments.record

A history is a consumer group whose members come, change their topics and go, with the targets after each step.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interop.differential.warm import warm_up
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest

RECORDED = Path(__file__).with_name("recorded.json")
CONFIG = {"group.consumer.assignment.interval.ms": "0", "group.consumer.assignor.offload.enable": "false"}
COUNTS = {f"t{count}{letter}": count for count in range(1, 10) for letter in "abc"}
IDS = [first + rest for first in "abcdefghij" for rest in ("", "1", "-zz", "Q" * 18)]
STEPS, MEMBERS, TOPICS = range(4, 13), 7, range(2, 7)
REBALANCE_TIMEOUT_MS = 600_000
PAUSE_S, NEWS_S = 0.01, 2.0


def history(seed: int) -> Iterator[tuple[str, list[str] | None]]:
    """Yield steps: a member and its topics, or None for a member that leaves."""
    chance = random.Random(seed)
    topics = sorted(chance.sample([*COUNTS], chance.choice(TOPICS)))
    ids, there = iter(chance.sample(IDS, len(IDS))), list[str]()
    for _ in range(chance.choice(STEPS)):
        wanted = sorted(chance.sample(topics, chance.randint(1, len(topics))))
        act = chance.choice(["join", "join", "join", "leave", "change"])
        if (act == "join" and len(there) < MEMBERS) or not there:
            there.append(next(ids))
            yield there[-1], wanted
        elif act == "leave" and len(there) > 1:
            yield there.pop(chance.randrange(len(there))), None
        else:
            yield chance.choice(there), wanted


def play(client: RawClient, seed: int, topic_ids: dict[str, str]) -> dict[str, Any]:
    """Return the topics of a history with ids and counts, and its steps with everybody's target after each."""
    group, epochs = f"g{seed}", dict[str, int]()

    def beat(member_id: str, topics: list[str] | None = None) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group, member_id, epochs.get(member_id, 0), None, None, REBALANCE_TIMEOUT_MS, topics, topic_partitions=[]
        )
        reply = client.call(request, 1)
        assert not reply.error_code, reply.error_message
        epochs[member_id] = reply.member_epoch

    def targets() -> dict[str, dict[str, list[int]]]:
        while True:
            [described] = client.call(ConsumerGroupDescribeRequest([group]), 1).groups
            if described.group_epoch == described.assignment_epoch:
                break
            time.sleep(PAUSE_S)
            for each in [*epochs]:
                beat(each)
        found = {member.member_id: member.target_assignment.topic_partitions for member in described.members}
        return {name: {topic.topic_name: topic.partitions for topic in target} for name, target in found.items()}

    told, topics = [], set[str]()
    for member_id, wanted in history(seed):
        if wanted is None:
            del epochs[member_id]
            client.call(ConsumerGroupHeartbeatRequest(group, member_id, -1), 1)
            for each in [*epochs]:
                beat(each)
        else:
            beat(member_id, wanted)
            topics |= {*wanted}
        told.append([member_id, wanted, targets()])
    return {"topics": {name: [topic_ids[name], COUNTS[name]] for name in sorted(topics)}, "steps": told}


def main(seeds: range = range(48)) -> None:
    with RealKafka(CONFIG) as kafka, RawClient(kafka.bootstrap_servers) as client:
        warm_up(kafka.bootstrap_servers)
        client.call(CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in COUNTS.items()]), 7)
        time.sleep(NEWS_S)
        topic_ids = {topic.name: topic.topic_id.hex() for topic in client.call(MetadataRequest(None), 12).topics}
        histories = [json.dumps(play(client, seed, topic_ids), separators=(",", ":")) for seed in seeds]
    RECORDED.write_text("[\n" + ",\n".join(histories) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
