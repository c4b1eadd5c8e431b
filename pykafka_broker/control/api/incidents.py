"""Incidents: moved leaders and coordinators, lost members, full disks.

Rule: an incident takes the same way through the broker as a real one, with the usual consequences.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.cluster.image import NO_LEADER, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykafka_broker.control.answers import LogSize
from pykafka_broker.control.api.groups import find_group
from pykafka_broker.control.api.topics import topic_image
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem, problem_of
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.faults import Rule
from pykafka_broker.control.traffic.mentions import mentions_of
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.retention import retain
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord

AwayMs = Annotated[int, ValueLimits(minimum=0, maximum=60_000, says="milliseconds of the broker's clock")]
_CLEANED_WITHIN_S = 60.0
_LATE_S = 10.0
_AWAY_MS = 100
_RETAINED_AT_ONCE = 50  # segments, in some ten milliseconds


@dataclass
class LeaderEpoch:
    """A partition's leader and the epoch from now on."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int


def bump_leader_epoch(control: Control, topic: str, partition: int = 0) -> LeaderEpoch:
    """Elect the broker as the partition's leader anew, so the leader epoch grows and clients with the old
    epoch are fenced.
    """
    return _lead(control, topic_image(control, topic, partition), partition, control.services.node_id)


async def move_coordinator(
    control: Control, group: str | None = None, transactional_id: str | None = None, away_ms: AwayMs = _AWAY_MS
) -> LeaderEpoch:
    """Take the coordinator of a group or of a transactional id away for a time, and bring the coordinator back: the
    log is read again, and clients have to look the coordinator up. While the clock is frozen the answer does not wait
    for the return.
    """
    if (group is None) == (transactional_id is None):
        raise Problem(400, "either group or transactional_id must be given")
    led, parked = control.in_turn(lambda: _take_away(control, group, transactional_id, away_ms))
    await control.until(lambda: parked.done or control.time.frozen or None, away_ms / 1000 + _LATE_S)
    return led[-1]


def _take_away(
    control: Control, group: str | None, transactional_id: str | None, away_ms: int
) -> tuple[list[LeaderEpoch], Parked]:
    """Take a coordinator away; return its leader epochs, which the return adds to, and the return."""
    services = control.services
    shards = services.groups.shards if transactional_id is None else services.transactions.shards
    name = CONSUMER_OFFSETS if transactional_id is None else TRANSACTION_STATE
    if not shards.count:
        raise Problem(409, f"the coordinator does not exist yet: there is no topic {name}")
    index = shards.index_of(group or transactional_id or "")
    broker = control.broker
    led = [_lead(control, topic_image(control, name), index, NO_LEADER)]

    def bring_back(now: int) -> LeaderEpoch:
        there = broker.services.image.topics.get(name)
        if control.broker is broker and there is not None:  # a later broker has all coordinators anyway
            led.append(_lead(control, there, index, control.services.node_id))
        return led[-1]

    parked = Parked(control.turns.clock.now + away_ms, expire=bring_back)
    broker.node.purgatory.park(parked)
    return led, parked


def befall(control: Control, exchange: Exchange, rule: Rule) -> None:
    """Let the event of a rule befall what a request names, as far as the rule is about it; nothing happens where the
    request names nothing of the kind.
    """
    event = rule.action.event
    mentions = mentions_of(exchange.request, control.observing.known)
    groups = [each for each in mentions.groups if rule.meets_group(each)]
    ids = [each for each in mentions.transactional_ids if rule.meets_transactional_id(each)]
    steps: list[Callable[[], object]] = []
    if event == "bump_leader_epoch":
        places = [(topic, partition or 0) for topic, partition in mentions.places if rule.meets(topic, partition)]
        steps = [partial(bump_leader_epoch, control, *place) for place in places]
    elif event == "move_coordinator":
        steps = [partial(_take_away, control, group, None, _AWAY_MS) for group in groups]
        steps += [partial(_take_away, control, None, each, _AWAY_MS) for each in ids]
    elif member := getattr(exchange.request, "member_id", ""):
        steps = [partial(expire_member, control, group, member) for group in groups]
    for step in steps:
        with suppress(Problem):  # what a client names need not exist
            step()


def _lead(control: Control, topic: TopicImage, partition: int, leader: int) -> LeaderEpoch:
    if not control.broker.node.roles.alone:
        raise Problem(409, "the node belongs to a cluster: POST /incidents/leader moves leaders there")
    record = PartitionChangeRecord(partition, topic.id, leader=leader)
    control.broker.node.led_metadata.commit([ApiMessageAndVersion(record, 0)])
    state = topic.partitions[partition]
    return LeaderEpoch(topic.name, partition, state.leader, state.leader_epoch)


def expire_member(control: Control, group: str, member: str) -> None:
    """End the session of a member, as if the session timeout had passed. `member` is the member id, the
    group.instance.id or its client id.
    """
    groups, now = control.services.groups, control.turns.clock.now
    found: Any = find_group(control.services, group)  # every kind has members and sessions
    if found is None:
        raise Problem(404, f"there is no group {group}")
    members = found.members.values()
    meant = [each.member_id for each in members if member in (each.member_id, each.instance_id, each.client_id)]
    if len(meant) != 1:
        there = ", ".join(each.member_id for each in members) or "none"
        raise Problem(
            404, f"{member} is {'several members' if meant else 'no member'} of group {group}; it has {there}"
        )
    groups.coordinator.table.timers.set_session(found, meant[0], now)
    groups.on_deadline(now)


async def compact(control: Control, topic: str) -> list[LogSize]:
    """Compact all records of a topic now: the active segments are closed first, and neither dirty ratio nor compaction
    lag counts. Segments with an undecided transaction, and later ones, stay. Returns the sizes of its partitions
    afterwards.
    """
    logs = _logs(control, topic)
    manager = control.broker.node.logs
    if any("compact" not in log.config.cleanup_policy for log in logs):
        raise Problem(409, f"cleanup.policy of topic {topic} does not say compact")

    def begin() -> None:
        for log in logs:
            log.roll(control.turns.clock.wall)
            manager.flush(log, control.turns.clock.now)

    def synced() -> bool | None:
        return all(log.recovery_point >= log.segments.active.base_offset for log in logs) or None

    def idle() -> bool | None:
        return manager.cleaner.is_idle(keys) or None

    control.in_turn(begin)
    keys = [(topic, log.partition) for log in logs]
    # A cleaning that is under way has not seen the segments that were active.
    for reached, what in ((synced, "the records are not on disk"), (idle, "an earlier compaction has not ended")):
        await _reach(control, reached, topic, what)
    if control.in_turn(lambda: manager.cleaner.clean(keys)):
        await _reach(control, idle, topic, "the compaction has not ended")
    return list(map(_size, logs))


async def _reach(control: Control, holds: Callable[[], bool | None], topic: str, instead: str) -> None:
    """Wait for a state. Raises `Problem` 503, with what there is instead, after a minute."""
    if await control.until(holds, _CLEANED_WITHIN_S) is None:
        raise Problem(503, f"topic {topic} is not compacted: {instead} after {_CLEANED_WITHIN_S:g} s")


async def apply_retention(control: Control, topic: str) -> list[LogSize]:
    """Delete everything beyond retention now. Returns the sizes of the topic's partitions afterwards."""
    logs, manager = _logs(control, topic), control.broker.node.logs
    for log in logs:

        def step(log: PartitionLog = log) -> int:
            is_here = manager.loaded.get((log.topic, log.partition)) is log
            return _retain_some(log, control.turns.clock.wall) if is_here else 0

        is_done = False
        while not is_done:
            is_done = control.in_turn(step) < _RETAINED_AT_ONCE
            await asyncio.sleep(0)  # clients are served meanwhile
    return list(map(_size, logs))


def _retain_some(log: PartitionLog, wall: int) -> int:
    """Delete a few segments beyond retention, and return how many. Raises `Problem` 503 where the disk refuses, or the
    log is damaged.
    """
    try:
        return retain(log, wall, _RETAINED_AT_ONCE)
    except OSError as error:
        raise problem_of(log.storage_error(error)) from error
    except DamagedLog as damage:
        raise Problem(503, str(damage)) from damage


def _logs(control: Control, topic: str) -> list[PartitionLog]:
    return [control.broker.node.logs.get(topic, index) for index in topic_image(control, topic).partitions]


def _size(log: PartitionLog) -> LogSize:
    return LogSize(
        topic=log.topic,
        partition=log.partition,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments=len(log.segments),
        bytes=sum(each.size for each in log.segments),
    )


def fill_disk(control: Control) -> None:
    """Refuse all writes to disks, as if full: appends fail, reads go on. `free_disk` ends the state."""
    control.state.fail_writes(errno.ENOSPC)


def free_disk(control: Control) -> None:
    """Let the disks have room again."""
    control.state.fail_writes(0)


def break_disk(control: Control) -> None:
    """Fail all writes to disks with an I/O error. As with a real one, the directory of the next write goes offline, and
    a broker without another directory ends. What is offline comes back when the process is started again.
    """
    control.state.fail_writes(errno.EIO)


def pause(control: Control) -> None:
    """Stop answering all clients, as a process under SIGSTOP: requests and connections wait, and are served at
    `unpause`. This API goes on.
    """
    control.observing.faults.pause()


def unpause(control: Control) -> None:
    """Go on after a `pause`."""
    control.observing.faults.unpause()
