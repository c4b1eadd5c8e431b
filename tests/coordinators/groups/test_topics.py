"""Hashes that Apache Kafka 4.4.0 has written into `__consumer_offsets`, with the topics that they are about."""

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
    "df7ef8bda226425aa24c360f53c1ea71",
    "7973277157184ad395f0295d7d7b7240",
    "5a7bdfa562a94edb848b6c3198261286",
    "9528358ede22475097b2a54769412e39",
)
IN_A_RACK = table(
    "rack-1",
    "70db7a6d3dda4148ac468cae75b27887",
    "da63d42fcd0047de857e56f207f23713",
    "104488f7a6cf4994a78ec5c782737444",
    "b7130d5926f0403b8072bcf5f4d8c73e",
)


@pytest.mark.parametrize(
    ("topics", "names", "expected"),
    [
        pytest.param(WITHOUT_RACK, ["hash-a"], -3836426726585474250, id="one topic"),
        pytest.param(WITHOUT_RACK, ["nowhere", "hash-b", "hash-a"], -740830830143792453, id="in the order of names"),
        pytest.param(WITHOUT_RACK, ["hash-many"], -950878824597605633, id="many partitions"),
        pytest.param(WITHOUT_RACK, list(PARTITIONS), -8528318540877472866, id="a long input"),
        pytest.param(WITHOUT_RACK, ["hash-b"], -3068114887160752104, id="of a streams group"),
        pytest.param(WITHOUT_RACK, ["hash-a", "hash-many"], -6811779816996033367, id="of a share group"),
        pytest.param(IN_A_RACK, ["hash-a"], -5656902331551724915, id="rack: one topic"),
        pytest.param(IN_A_RACK, ["hash-a", "hash-b"], 8417885806155649520, id="rack: two"),
        pytest.param(IN_A_RACK, ["hash-many"], -1783106652099592504, id="rack: many partitions"),
        pytest.param(IN_A_RACK, list(PARTITIONS), 3985272120754770088, id="rack: a long input"),
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


def test_hashes_of_deleted_topics_are_forgotten() -> None:
    topics = TopicTable()
    hashes = TopicHashes(topics)
    for number in range(50):
        topics.add(f"t-{number}", 1)
        hashes.of_group({*topics.topics})
        if number >= 2:
            del topics.topics[f"t-{number - 2}"]
    assert len(hashes._known) < 10


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
