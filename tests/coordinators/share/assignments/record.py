"""Record which partitions the members of share groups get from a running Apache Kafka.

python -m tests.coordinators.share.assignments.record

A history is a group whose members come, change their topics and go. All partitions have a state before it begins, and
after each step every member has had a heartbeat.
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
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

RECORDED = Path(__file__).with_name("recorded.json")
CONFIG = {"group.share.assignment.interval.ms": "0"}
COUNTS = {f"t{count}{letter}": count for count in range(1, 7) for letter in "abc"}
IDS = [first + rest for first in "abcdefghij" for rest in ("", "1", "-zz", "Q" * 18)]
FIRST = "the-first"  # the member that reads all topics until their partitions have states
STEPS, MEMBERS = range(4, 13), 7
WITH_MANY_TOPICS = 3  # of every four histories the others have two or three topics
PAUSE_S, NEWS_S = 0.01, 2.0


def history(seed: int) -> Iterator[tuple[str, list[str] | None]]:
    """Yield the topics, with no member, then steps: a member and its topics, or None for one that leaves.

    Every other history has one subscription for all members.
    """
    chance = random.Random(seed)
    several = chance.randint(4, 8) if seed % 4 == WITH_MANY_TOPICS else chance.randint(2, 3)
    topics = sorted(chance.sample([*COUNTS], several))
    yield "", topics
    ids, there = iter(chance.sample(IDS, len(IDS))), list[str]()
    for _ in range(chance.choice(STEPS)):
        wanted = topics if seed % 2 else sorted(chance.sample(topics, chance.randint(1, several)))
        act = chance.choice(["join", "join", "join", "leave", "change"])
        if (act == "join" and len(there) < MEMBERS) or not there:
            there.append(next(ids))
            yield there[-1], wanted
        elif act == "leave" and len(there) > 1:
            yield there.pop(chance.randrange(len(there))), None
        else:
            yield chance.choice(there), wanted


def play(client: RawClient, seed: int, topic_ids: dict[str, str]) -> dict[str, Any]:
    """Return the topics of a history with ids and counts, and its steps with everybody's partitions after each."""
    group, epochs = f"g{seed}", dict[str, int]()

    def beat(member_id: str, topics: list[str] | None = None) -> None:
        request = ShareGroupHeartbeatRequest(group, member_id, epochs.get(member_id, 0), subscribed_topic_names=topics)
        reply = client.call(request, 1)
        assert not reply.error_code, reply.error_message
        epochs[member_id] = reply.member_epoch

    def leave(member_id: str) -> None:
        del epochs[member_id]
        client.call(ShareGroupHeartbeatRequest(group, member_id, -1), 1)

    def assigned() -> dict[str, dict[str, list[int]]]:
        [described] = client.call(ShareGroupDescribeRequest([group]), 1).groups
        return {
            member.member_id: {topic.topic_name: topic.partitions for topic in member.assignment.topic_partitions}
            for member in described.members
        }

    steps = history(seed)
    _, topics = next(steps)
    assert topics is not None
    beat(FIRST, topics)
    while sum(map(len, assigned()[FIRST].values())) < sum(COUNTS[name] for name in topics):
        time.sleep(PAUSE_S)
        beat(FIRST)
    leave(FIRST)
    told = []
    for member_id, wanted in steps:
        if wanted is None:
            leave(member_id)
        else:
            beat(member_id, wanted)
        for each in [*epochs]:
            beat(each)
        told.append([member_id, wanted, assigned()])
    return {"topics": {name: [topic_ids[name], COUNTS[name]] for name in topics}, "steps": told}


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
