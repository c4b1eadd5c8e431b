"""The JSON of `reassign-partitions`: what is read, what is printed, and what is proposed.

Rule: what is wrong with a file is said in Kafka's words, before anybody is asked.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykafka_broker.client.errors import ClientError, Refused
from pykafka_broker.client.leaders import Place
from pykafka_broker.cluster.placement import Racks
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.json_file import json_array, json_number, json_object, json_text, read_json

ANY = "any"


class Plan(NamedTuple):
    """Replicas of partitions in their order, and where on a broker a replica shall be."""

    replicas: dict[Place, list[int]]
    directories: dict[tuple[Place, int], str]


class Candidate(NamedTuple):
    """A broker that may be given replicas."""

    id: int
    rack: str | None
    fenced: bool = False


def read_plan(path: str) -> Plan:
    """Raises ClientError."""
    whole = json_object(read_json(path))
    _check_version(whole)
    plan, seen, twice = Plan({}, {}), set(), []
    for each in map(json_object, json_array(whole.get("partitions", []))):
        place = json_text(each.get("topic")), json_number(each.get("partition"))
        replicas = [json_number(one) for one in json_array(each.get("replicas"))]
        directories = json_array(each.get("log_dirs", [ANY] * len(replicas)))
        if len(directories) != len(replicas):
            raise ClientError(
                f"Size of replicas list {replicas} is different from size of log dirs list {directories} for "
                f"partition {spelt(place)}"
            )
        if place in seen:
            twice.append(place)
        seen.add(place)
        plan.replicas[place] = replicas
        for broker, directory in zip(replicas, map(json_text, directories), strict=True):
            if directory != ANY:
                plan.directories[place, broker] = directory
    if twice:
        raise ClientError(f"Partition reassignment contains duplicate topic partitions: {listed(twice)}")
    return plan


def check_plan(plan: Plan) -> None:
    """That it can be executed. Raises ClientError."""
    if not plan.replicas:
        raise ClientError("Partition reassignment list cannot be empty")
    if not all(plan.replicas.values()):
        raise ClientError("Partition replica list cannot be empty")
    for place, replicas in plan.replicas.items():
        twice = sorted({each for each in replicas if replicas.count(each) > 1})
        if twice:
            several = ",".join(map(str, twice))
            raise ClientError(
                "Partition replica lists may not contain duplicate entries: "
                f"{spelt(place)} contains multiple entries for {several}"
            )


def read_topics(path: str) -> list[str]:
    """Raises ClientError."""
    whole = json_object(read_json(path))
    _check_version(whole)
    names = [json_text(json_object(each).get("topic")) for each in json_array(whole.get("topics", []))]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise ClientError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return names


def _check_version(whole: dict[str, Any]) -> None:
    version = whole.get("version", 1)
    if version != 1:
        raise ClientError(f"Not supported version field value {version}")


def written(replicas: Mapping[Place, list[int]], directories: Mapping[tuple[Place, int], str]) -> str:
    """A file that can be read again."""
    partitions = [
        {
            "topic": place[0],
            "partition": place[1],
            "replicas": on,
            "log_dirs": [directories.get((place, broker), ANY) for broker in on],
        }
        for place, on in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def propose(current: Mapping[Place, list[int]], brokers: Iterable[Candidate]) -> dict[Place, list[int]]:
    """Other replicas for each topic, as many as it has, over racks and brokers. Raises Refused."""
    candidates = list(brokers)
    found: dict[Place, list[int]] = {}
    for topic in sorted({topic for topic, _ in current}):
        places = sorted(place for place in current if place[0] == topic)
        factor = len(current[places[0]])
        if factor > len(candidates):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The target replication factor of {factor} cannot be reached because only {len(candidates)} "
                "broker(s) are registered or some brokers have all their log directories cordoned.",
            )
        racks = Racks(candidates, random.randrange)
        found |= {place: racks.next(factor) for place in places}
    return found


def spelt(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def listed(places: Iterable[Place]) -> str:
    return ",".join(map(spelt, sorted(places)))
