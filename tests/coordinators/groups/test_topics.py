"""Hashes that Apache Kafka 4.3.1 has written into `__consumer_offsets`, with the topics that they are about."""

from __future__ import annotations

import random

import pytest

from pykafka_broker.coordinators.groups.topics import TopicHashes, xxh3_64
from tests.coordinators.machine import Broker, TopicTable

LONG = "long-name-" * 10
PARTITIONS = {"hash-a": 1, "hash-b": 3, "hash-many": 40, f"hash-{LONG}": 2}


def table(rack: str | None, *topic_ids: str) -> TopicTable:
    topics = TopicTable(**PARTITIONS)
    topics.brokers[1] = Broker(rack)
    for topic, topic_id in zip(topics.topics.values(), topic_ids, strict=True):
        topic.id = bytes.fromhex(topic_id)
    return topics


WITHOUT_RACK = table(
    None,
    "24dd7bf2ba724ddfaeeea56f9ad623bf",
    "c85cbef08e8b4ecfb8e5ce859a77ba4d",
    "9546159f3cfa457a9c62f7d26e1b9855",
    "241f84e7c0a3410aba0ce494e92177d0",
)
IN_A_RACK = table(
    "rack-1",
    "fc069464c0ff482290e091a200df878a",
    "813ef700c4ff4c1a963b9149ef4b8641",
    "f7fa442d954340ef86e9f420ce2b7938",
    "40e2c4f6a00d44049a56b71746b55487",
)


@pytest.mark.parametrize(
    ("topics", "names", "expected"),
    [
        pytest.param(WITHOUT_RACK, ["hash-a"], 8697358185900710239, id="one topic"),
        pytest.param(WITHOUT_RACK, ["nowhere", "hash-b", "hash-a"], 6781887421534248385, id="in the order of names"),
        pytest.param(WITHOUT_RACK, ["hash-many"], -361991341931121049, id="many partitions"),
        pytest.param(WITHOUT_RACK, list(PARTITIONS), 7795405947406455143, id="a long input"),
        pytest.param(WITHOUT_RACK, ["hash-b"], 4052027489851229893, id="of a streams group"),
        pytest.param(WITHOUT_RACK, ["hash-a", "hash-many"], -2886869835033753210, id="of a share group"),
        pytest.param(IN_A_RACK, ["hash-a"], 7277066999691754609, id="rack: one topic"),
        pytest.param(IN_A_RACK, ["hash-a", "hash-b"], 8255085644644675072, id="rack: two"),
        pytest.param(IN_A_RACK, ["hash-many"], 1110744343316588922, id="rack: many partitions"),
        pytest.param(IN_A_RACK, list(PARTITIONS), 578729899612332692, id="rack: a long input"),
        pytest.param(WITHOUT_RACK, ["nowhere"], 0, id="nothing"),
    ],
)
def test_hashes_as_kafka_stores_them(topics: TopicTable, names: list[str], expected: int) -> None:
    hashes = TopicHashes(topics)
    assert hashes.of_group(set(names)) == expected
    assert hashes.of_group({*names, *(f"nowhere-{number}" for number in range(50))}) == expected


def test_a_topic_that_grows_or_comes_again_has_another_hash() -> None:
    topics = TopicTable(t=1)
    hashes = TopicHashes(topics)
    found = {hashes.of_group({"t"})}
    topics.add("t", 2)
    found.add(hashes.of_group({"t"}))
    topics.topics["t"].id = bytes(range(16))
    found.add(TopicHashes(topics).of_group({"t"}))
    assert len(found) == 3


# What Java's library (hash4j, in Kafka's jars) makes of the first bytes of one random text.
XXH3 = {
    4: 4215190515961773364,
    5: 5992869009666343325,
    7: 6871585181857358675,
    8: 4848922549473838032,
    9: 15376933021000802752,
    16: 16195470360049093663,
    17: 2080649284724690771,
    32: 16299088382584232758,
    33: 8646577227609346836,
    64: 6876336155448677258,
    65: 17528988196046559884,
    96: 15165718749899264678,
    97: 1174536757907746258,
    128: 7755490247464245177,
    129: 16469755782456084075,
    160: 2804286996567828473,
    239: 8152232470208204411,
    240: 7520408801294522590,
    241: 5258398366905401860,
    256: 16871527714392524639,
    257: 3193747012455340340,
    1024: 13587149223374874467,
    1025: 5624828042897737707,
    1088: 679807131376255043,
    2048: 2132741426238643445,
    2049: 418389876618188973,
    3000: 2095919947352431023,
}


@pytest.mark.parametrize("length", XXH3)
def test_xxh3(length: int) -> None:
    assert xxh3_64(random.Random(7).randbytes(3_000)[:length]) == XXH3[length]
