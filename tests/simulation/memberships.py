"""Members of a group, by the classic protocol and by that of KIP-848.

Rule: `keep` is called again and again and sees to it that the member is one, as long as it wants to be; `assigned` is
what it may read until the next call. Before it gives anything back, `revoking` is run. A refusal that says that the
member is none any more makes it join anew; it never believes itself a member against the coordinator's word.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import cycle
from typing import Any

from pykafka_broker.coordinators.groups.consumer_protocol import read_assignment
from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from pykafka_broker.protocol.runtime import Message, uuid_text
from tests.scenarios.groups.actors import assignment, subscription
from tests.simulation.client import Ask, Script, SimClient, Wait

GROUP = 0  # the kind of coordinator
HEARTBEAT_MS = 250
SESSION_MS = 1_200
REBALANCE_MS = 1_500
Revoking = Callable[[set[PartitionKey]], Script]
# This member, or what it was in this generation, is no more.
GONE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
BEHIND = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)


class Membership:
    """A membership in a group. epoch: the generation or the member's epoch, -1 while the client is no member."""

    def __init__(self, client: SimClient, group: str, input: list[PartitionKey], instance: str | None) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.epoch = -1
        self.assigned: set[PartitionKey] = set()
        self.positions: dict[PartitionKey, int] = {}  # of those that it has begun to read, while they are its own
        self._input = input
        self._first_count = len(input)
        self._due = 0  # the next heartbeat

    def keep(self, revoking: Revoking) -> Script:
        """Join or send a heartbeat, and take over the assignment."""
        raise NotImplementedError

    def leave(self) -> Script:
        """Leave the group in an orderly way."""
        raise NotImplementedError

    @property
    def as_told(self) -> tuple[str | None, int]:
        """The member id and epoch for OffsetFetch, which the coordinator checks; None and -1: it checks nothing."""
        return None, -1

    def refused(self, error: ErrorCode) -> None:
        """Act on a member's request that was refused: end the membership, or send the next heartbeat at once."""
        if error in GONE:
            self.forget()
        else:
            self._due = 0  # there is news

    def own(self, partitions: set[PartitionKey]) -> None:
        """Set the assigned partitions, and drop the positions of all others."""
        added = self._input[self._first_count :]
        self.client.history.rare["member was given an added partition"] += any(each in added for each in partitions)
        self.assigned = partitions
        self.positions = {each: at for each, at in self.positions.items() if each in partitions}

    def forget(self) -> None:
        """End the membership: no member id and no partitions."""
        self.member_id, self.epoch, self._due = "", -1, 0
        self.own(set())

    def _ask(self, request: Message, versions: Versions, of: str) -> Generator[Ask | Wait, Any, tuple[Any, ErrorCode]]:
        """Ask the coordinator once; return its answer, or None if there is no answer or a retriable error."""
        client = self.client
        place = yield from client.coordinator(GROUP, self.group)
        answer = yield Ask(place, request, versions)
        if not isinstance(answer, LinkError):
            error = ErrorCode(answer.error_code)
            again = error is not ErrorCode.NONE and client.expect(
                error, of, *GONE, *BEHIND, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNRELEASED_INSTANCE_ID
            )
            if not again:
                return answer, error
        client.forget_coordinator(GROUP, self.group)
        yield client.backoff()
        return None, ErrorCode.NONE

    def _topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._input})


class ClassicMembership(Membership):
    """A member of the classic protocol: JoinGroup, SyncGroup, Heartbeat.

    It gives all partitions back before it joins again, also after partitions were added.
    """

    _known = 0  # partitions, when it joined

    def keep(self, revoking: Revoking) -> Script:
        if self.epoch >= 0 and self._known < len(self._input):
            yield from revoking(self.assigned)
        elif self.epoch >= 0:
            if self.client.clock.now < self._due:
                return
            request = HeartbeatRequest(self.group, self.epoch, self.member_id, self.instance)
            answer, error = yield from self._ask(request, (4, 4), "Heartbeat")
            if answer is None or error is ErrorCode.NONE:
                self._due = self.client.clock.now + (HEARTBEAT_MS if answer is not None else 0)
                return
            if error in GONE:
                self.forget()
            elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                yield from revoking(self.assigned)
        self.own(set())
        yield from self._join()

    def _join(self) -> Script:
        self.epoch, self._known = -1, len(self._input)
        while self.epoch < 0:
            protocols = [JoinGroupRequestProtocol("range", subscription(self._topics(), 3))]
            request = JoinGroupRequest(
                self.group, SESSION_MS, REBALANCE_MS, self.member_id, self.instance, "consumer", protocols
            )
            answer, error = yield from self._ask(request, (9, 9), "JoinGroup")
            if error is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif error in GONE:
                self.member_id = ""
            elif answer is not None and error is ErrorCode.NONE:
                self.member_id = answer.member_id
                yield from self._sync(answer)
            elif answer is not None:
                yield self.client.backoff()
        self.client.history.did["rebalance"] += 1

    def _sync(self, joined: JoinGroupResponse) -> Script:
        request = SyncGroupRequest(
            self.group, joined.generation_id, self.member_id, self.instance, "consumer", joined.protocol_name
        )
        if joined.leader == self.member_id and not joined.skip_assignment:
            request.assignments = self._assignments(sorted(each.member_id for each in joined.members))
        answer, error = yield from self._ask(request, (5, 5), "SyncGroup")
        if error in GONE:
            self.member_id = ""
        elif answer is not None and error is ErrorCode.NONE:
            self.epoch = joined.generation_id
            self._due = self.client.clock.now + HEARTBEAT_MS
            if answer.assignment:
                assigned = read_assignment(bytes(answer.assignment)).assigned_partitions
                self.own({(each.topic, number) for each in assigned for number in each.partitions})

    def _assignments(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        given: dict[str, dict[str, list[int]]] = {member: {} for member in members}
        for member, (topic, number) in zip(cycle(members), self._input):
            given[member].setdefault(topic, []).append(number)
        return [SyncGroupRequestAssignment(member, assignment(parts, 3)) for member, parts in given.items()]

    def leave(self) -> Script:
        while self.epoch >= 0:
            request = LeaveGroupRequest(self.group, members=[MemberIdentity(self.member_id, self.instance)])
            answer, _ = yield from self._ask(request, (5, 5), "LeaveGroup")
            if answer is not None:
                self.forget()


class ConsumerMembership(Membership):
    """A member of the consumer protocol (KIP-848): each ConsumerGroupHeartbeat carries all fields."""

    @property
    def as_told(self) -> tuple[str | None, int]:
        return self.member_id, self.epoch

    def keep(self, revoking: Revoking) -> Script:
        first = self.epoch < 0
        while first or self.client.clock.now >= self._due:
            first = False
            answer, error = yield from self._beat(max(self.epoch, 0))
            if answer is None:
                continue
            if error is not ErrorCode.NONE:
                self.forget()
                yield self.client.backoff()
                first = True
                continue
            self.epoch = answer.member_epoch
            self._due = self.client.clock.now + HEARTBEAT_MS
            if answer.assignment is not None:
                yield from self._take(self._named(answer.assignment.topic_partitions), revoking)

    def _take(self, wanted: set[PartitionKey], revoking: Revoking) -> Script:
        gone = self.assigned - wanted
        if wanted != self.assigned:
            self.client.history.did["rebalance"] += 1
            self._due = 0  # and it is told
        if gone:
            yield from revoking(gone)
        if self.epoch >= 0:
            self.own(wanted)

    def _named(self, topics: Iterable[Any]) -> set[PartitionKey]:
        names = {id: name for name, id in self.client.topic_ids.items()}
        return {(names[each.topic_id], number) for each in topics for number in each.partitions}

    def _beat(self, epoch: int) -> Generator[Ask | Wait, Any, tuple[Any, ErrorCode]]:
        for topic in self._topics():
            while topic not in self.client.topic_ids:
                yield from self.client.refresh(topic)
        if not self.member_id:
            self.member_id = uuid_text(self.client.random.randbytes(16))
        owned: dict[bytes, list[int]] = {}
        for topic, number in sorted(self.assigned):
            owned.setdefault(self.client.topic_ids[topic], []).append(number)
        request = ConsumerGroupHeartbeatRequest(
            self.group,
            self.member_id,
            epoch,
            self.instance,
            None,
            REBALANCE_MS,
            self._topics(),
            topic_partitions=[TopicPartitions(id, numbers) for id, numbers in owned.items()] if epoch >= 0 else None,
        )
        return (yield from self._ask(request, (1, 1), "ConsumerGroupHeartbeat"))

    def leave(self) -> Script:
        while self.epoch >= 0:
            answer, _ = yield from self._beat(-1)
            if answer is not None:
                self.forget()
