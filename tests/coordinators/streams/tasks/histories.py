"""Histories of streams groups, made by chance, and how they are played: who gets which task, and when.

Rule: a history is plain data. A member reports what it was told last, so that the same history asks the same of every
broker that answers alike; all that the broker says about tasks is kept, in its order.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from pykafka_broker.protocol.runtime import Message

CONFIG = {
    "offsets.topic.num.partitions": "5",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
MOST_SUBTOPOLOGIES, MOST_PARTITIONS = 3, 7
TAGS = ("zone", "cluster")
SET = 0  # of IncrementalAlterConfigs
GROUP = 32  # the kind of resource
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
REBALANCE_TIMEOUT_MS = 600_000
END_OFFSET = 1000
ROUNDS = 40
ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")

Json = dict[str, Any]
Ask = Callable[[Message, int], Any]


# Making


def history(seed: int) -> Json:
    """Return a history: settings, members and steps."""
    chance = Random(seed)
    processes = [_uuid(chance) for _ in range(chance.randint(1, 8))]
    members = [_member(chance, processes) for _ in range(chance.randint(1, 12))]
    configs = {"streams.num.standby.replicas": str(chance.choice((0, 1, 1, 2)))}
    if chance.random() < 0.3:
        configs["streams.rack.aware.assignment.tags"] = ",".join(TAGS)
        configs["streams.num.warmup.replicas"] = str(chance.randint(0, 5))
        configs["streams.acceptable.recovery.lag"] = str(chance.choice((0, 5, END_OFFSET)))
    return {
        "seed": seed,
        "configs": configs,
        "reports": chance.choice((0, 0, 0.5)),
        "subtopologies": [
            [chance.randint(1, MOST_PARTITIONS), chance.random() < 0.75]
            for _ in range(chance.randint(1, MOST_SUBTOPOLOGIES))
        ],
        "members": members,
        "steps": list(_steps(chance, members)),
    }


def _uuid(chance: Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def _member(chance: Random, processes: list[str]) -> Json:
    member: Json = {"ids": [_uuid(chance)], "process": chance.choice(processes), "place": chance.choice("abc")}
    if chance.random() < 0.2:
        member["instance"] = f"i-{chance.randrange(1000)}"
        member["ids"].append(_uuid(chance))
    return member


def _steps(chance: Random, members: list[Json]) -> Iterator[list[Any]]:
    """Return random steps in which members come and go; most of the time the group settles in between."""
    out, present, away = list(range(len(members))), list[int](), list[int]()
    for _ in range(len(members) + chance.randint(0, 6)):
        if out and (chance.random() < 0.7 or not present):
            present.append(out.pop(0))
            yield ["join", present[-1]]
        elif away and chance.random() < 0.6:
            present.append(away.pop())
            yield ["return", present[-1]]
        elif present:
            place = present.pop(chance.randrange(len(present)))
            is_away = "instance" in members[place] and chance.random() < 0.7
            away += [place] * is_away
            yield ["away" if is_away else "leave", place]
        if present and chance.random() < 0.25:
            yield from (["beat", chance.choice(present)] for _ in range(chance.randint(1, 4)))
        elif chance.random() < 0.7:
            yield ["settle"]
    yield ["settle"]


# Playing


def make_ready(ask: Ask) -> None:
    """Create the topics of all histories, and wait until all groups have their coordinator."""
    names = [
        (f"{kind}-{place}-{count}", count)
        for kind in ("source", "changelog")
        for place in range(MOST_SUBTOPOLOGIES)
        for count in range(1, MOST_PARTITIONS + 1)
    ]
    ask(CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in names], 30_000), 7)
    ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    some_of_each = DescribeGroupsRequest([f"ready-{number}" for number in range(40)])
    while any(group.error_code for group in ask(some_of_each, 5).groups):
        time.sleep(0.1)


def configure(history: Json, ask: Ask) -> None:
    """Set the group's configs."""
    configs = [AlterableConfig(key, SET, value) for key, value in history["configs"].items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group_of(history), configs)])
    answer = ask(request, 1).responses[0]
    assert answer.error_code == 0, answer.error_message


def group_of(history: Json) -> str:
    return f"g-{history['seed']}"


class Thread:
    """A member as its client sees it."""

    def __init__(self, known: Json) -> None:
        self.known, self.id = known, known["ids"][0]
        self.epoch = 0
        self.has: list[list[TaskIds]] = [[], [], []]
        self.lives = False


class Player:
    """A history that is played. `told` is a list for each step: what members and the group were told, as texts."""

    def __init__(self, history: Json, ask: Ask) -> None:
        self._group, self._ask = group_of(history), ask
        self._steps = history["steps"]
        self._threads = [Thread(known) for known in history["members"]]
        self._reports, self._chance = history["reports"], Random(history["seed"])
        self._tasks = [
            (str(place), partition)
            for place, (count, _) in enumerate(history["subtopologies"])
            for partition in range(count)
        ]
        self._topology = _topology(history["subtopologies"])
        self.told: list[list[str]] = []

    def play(self) -> list[list[str]]:
        for name, *places in self._steps:
            self.told.append([])
            getattr(self, f"_{name}")(*(self._threads[place] for place in places))
        return self.told

    # Steps

    def _join(self, thread: Thread) -> None:
        thread.epoch, thread.has, thread.lives = JOINS, [[], [], []], True
        self._beat(thread)

    def _return(self, thread: Thread) -> None:
        ids = thread.known["ids"]
        thread.id = self._chance.choice(ids)
        self._join(thread)

    def _leave(self, thread: Thread) -> None:
        self._go(thread, LEAVES)

    def _away(self, thread: Thread) -> None:
        self._go(thread, LEAVES_FOR_A_WHILE)

    def _go(self, thread: Thread, epoch: int) -> None:
        thread.lives = False
        request = StreamsGroupHeartbeatRequest(self._group, thread.id, epoch, instance_id=thread.known.get("instance"))
        answer = self._ask(request, 1)
        self.told[-1].append(f"{self._threads.index(thread)} goes {answer.error_code} {answer.member_epoch}")

    def _beat(self, thread: Thread) -> bool:
        """Send a heartbeat and keep the answer; return whether it brought news."""
        request = StreamsGroupHeartbeatRequest(self._group, thread.id, thread.epoch)
        request.instance_id = thread.known.get("instance")
        request.active_tasks, request.standby_tasks, request.warmup_tasks = thread.has
        if thread.epoch == JOINS:
            place = thread.known["place"]
            request.topology = self._topology
            request.process_id = thread.known["process"]
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.client_tags = [KeyValue(key, place) for key in TAGS]
            request.rack_id = place
        if self._chance.random() < self._reports:
            request.task_offsets = [
                TaskOffset(*task, self._chance.choice((-1, 0, 5, 100, 100, END_OFFSET)))
                for task in self._tasks
                if self._chance.random() < 0.4
            ]
            request.task_end_offsets = [TaskOffset(*task, END_OFFSET) for task in self._tasks]
        answer = self._ask(request, 1)
        if answer.error_code:  # the answer to the second member with the same instance id
            thread.lives = False
            self.told[-1].append(f"{self._threads.index(thread)} refused {answer.error_code}")
            return False
        has_news = thread.epoch != answer.member_epoch or answer.active_tasks is not None
        thread.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            roles = (getattr(answer, role) for role in ROLES)
            thread.has = [[TaskIds(each.subtopology_id, each.partitions) for each in role] for role in roles]
        if has_news:
            given = _text(answer) if answer.active_tasks is not None else "-"
            statuses = [status.status_detail for status in answer.status or ()]
            self.told[-1].append(" ".join([f"{self._threads.index(thread)} {thread.epoch}: {given}", *statuses]))
        return has_news

    def _settle(self) -> None:
        """Send heartbeats until a round brings no news; keep epochs, and tasks and targets of all members."""
        for _ in range(ROUNDS):
            alive = [thread for thread in self._threads if thread.lives]
            news = [self._beat(thread) for thread in alive]
            if not any(news):
                break
        else:
            raise AssertionError(f"{self._group} does not settle")
        group = self._ask(StreamsGroupDescribeRequest([self._group]), 1).groups[0]
        self.told[-1].append(f"group {group.group_epoch} {group.assignment_epoch} {group.group_state}")
        places = {member_id: place for place, each in enumerate(self._threads) for member_id in each.known["ids"]}
        self.told[-1] += sorted(
            f"{places[member.member_id]} has {_text(member.assignment)} target {_text(member.target_assignment)}"
            for member in group.members
        )


def _topology(subtopologies: list[tuple[int, bool]]) -> Topology:
    found = []
    for place, (count, stateful) in enumerate(subtopologies):
        changelogs = [TopicInfo(f"changelog-{place}-{count}")] if stateful else []
        found.append(Subtopology(str(place), [f"source-{place}-{count}"], state_changelog_topics=changelogs))
    return Topology(0, found)


def _text(tasks: Any) -> str:
    """Return the tasks of all roles, in their order."""
    return "|".join(
        " ".join(f"{each.subtopology_id}_{partition}" for each in getattr(tasks, role) for partition in each.partitions)
        for role in ROLES
    )
