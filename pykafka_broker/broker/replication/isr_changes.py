"""Asking the controller for other ISRs (KIP-497).

Rule: a leader never changes an ISR itself. What its partitions wish for is gathered, one request is on its way at a
time, and whoever wishes counts the larger of both ISRs until an answer or the metadata says what holds. A wish that
the controller may have fulfilled without our hearing of it is not taken back before the metadata tells.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.clock import Clock
from pykafka_broker.peers import LinkError, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse
from pykafka_broker.protocol.messages.alter_partition_response import PartitionData as Answer
from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

_RETRY_MS = 50  # after nobody was there to ask, for as long as that is waited for
_TIMEOUT_MS = 30_000
_RECOVERED = 0
_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)  # for certain: nothing has changed


class Asking(Protocol):
    """The node whose partitions wish for something."""

    id: int
    clock: Clock

    @property
    def broker_epoch(self) -> int: ...

    def epoch_of(self, broker_id: int) -> int:
        """With which another broker is registered; -1 if it is not."""


Ask = Callable[[Message, OnReply, int], None]


class _Asked(NamedTuple):
    """What was wished for, by which epoch of the partition, and how many were in sync then."""

    partition: Partition
    isr: tuple[int, ...]
    epoch: int
    in_sync: int


class IsrChanges:
    """The wishes of one node. `ask` brings a request to the controller."""

    def __init__(self, node: Asking, ask: Ask) -> None:
        self.due: int | None = None
        self.expanded = self.shrunk = 0  # ISRs that have changed at a wish of this node
        self._node = node
        self._ask = ask
        self._wishing: dict[tuple[bytes, int], Partition] = {}
        self._asked: dict[tuple[bytes, int], _Asked] | None = None  # while there is no answer

    def wish(self, partition: Partition) -> None:
        """Ask for the ISR that this partition wishes for, as soon as may be."""
        self._wishing[partition.log.topic_id, partition.number] = partition
        if self.due is None and self._asked is None:
            self.due = self._node.clock.now

    def is_asked(self, partition: Partition) -> bool:
        """Whether its wish will be heard, or is being heard."""
        key = partition.log.topic_id, partition.number
        return key in self._wishing or (self._asked is not None and key in self._asked)

    def go_on(self, now: int) -> None:
        """Send what has been gathered."""
        self.due = None
        if self._asked is not None:
            return
        wishing, self._wishing = self._wishing, {}
        asked = {
            key: _Asked(each, isr, each.state.partition_epoch, len(each.isr))
            for key, each in wishing.items()
            if (isr := _wish(each))
        }
        if asked:
            self._asked = asked
            self._ask(self._request(asked), self._answered, _TIMEOUT_MS)

    def _request(self, asked: dict[tuple[bytes, int], _Asked]) -> AlterPartitionRequest:
        topics: dict[bytes, list[PartitionData]] = {}
        for (topic_id, number), (partition, isr, epoch, _) in asked.items():
            members = [BrokerState(each, self._epoch_in(partition, each)) for each in isr]
            topics.setdefault(topic_id, []).append(
                PartitionData(number, partition.leader_epoch, [], members, _RECOVERED, epoch)
            )
        data = [TopicData(topic_id=topic_id, partitions=some) for topic_id, some in topics.items()]
        return AlterPartitionRequest(self._node.id, self._node.broker_epoch, data)

    def _epoch_in(self, partition: Partition, broker_id: int) -> int:
        """The epoch that a broker fetches with, else that of its registration."""
        if broker_id == self._node.id:
            return self._node.broker_epoch
        follower = None if partition.followers is None else partition.followers.get(broker_id)
        known = -1 if follower is None else follower.broker_epoch
        return known if known >= 0 else self._node.epoch_of(broker_id)

    # -- the answer

    def _answered(self, reply: Message | LinkError) -> None:
        asked, self._asked = self._asked or {}, None
        now = self._node.clock.now
        failure = str(reply) if isinstance(reply, LinkError) else None
        response = cast(AlterPartitionResponse, reply)
        if failure is None and response.error_code:
            failure = ErrorCode(response.error_code).name
        if failure is not None:
            logger.debug("the controller did not hear of %d ISRs: %s", len(asked), failure)
            for key, one in asked.items():
                self._wishing.setdefault(key, one.partition)
            self.due = now + _RETRY_MS
            return
        for topic in response.topics:
            for answer in topic.partitions:
                wished = asked.pop((topic.topic_id, answer.partition_index), None)
                if wished is not None:
                    self._take(wished, answer, now)
        for key, one in asked.items():  # the controller said nothing of them
            self._wishing.setdefault(key, one.partition)
        if self._wishing:
            self.due = now

    def _take(self, asked: _Asked, answer: Answer, now: int) -> None:
        partition, isr, epoch, in_sync = asked
        if answer.error_code:
            self._not_done(partition, isr, epoch, ErrorCode(answer.error_code), now)
            return
        if answer.partition_epoch == epoch:
            self._give_up(partition, epoch, now)  # it was so already
            return
        self.expanded += len(isr) > in_sync
        self.shrunk += len(isr) < in_sync
        if answer.leader_epoch == partition.leader_epoch and answer.partition_epoch > partition.state.partition_epoch:
            state = partition.state.copy()
            state.isr = tuple(answer.isr)
            state.partition_epoch, state.leader_recovery_state = answer.partition_epoch, answer.leader_recovery_state
            partition.update(state, now)

    def _not_done(self, partition: Partition, isr: tuple[int, ...], epoch: int, code: ErrorCode, now: int) -> None:
        """A wish that was refused for certain is given up. Of all others the metadata is to tell what has become of
        them: they are looked at again from time to time (`Partition.review_isr`).
        """
        if code is ErrorCode.NEW_LEADER_ELECTED:  # it was granted, and a reassignment has ended with it
            logger.debug("%s-%d has got the ISR %s and another leader", partition.topic, partition.number, list(isr))
        else:
            logger.info("%s-%d did not get the ISR %s: %s", partition.topic, partition.number, list(isr), code.name)
        if code in _REFUSED:
            self._give_up(partition, epoch, now)

    @staticmethod
    def _give_up(partition: Partition, epoch: int, now: int) -> None:
        if partition.state.partition_epoch == epoch:
            partition.isr_refused(now)


def _wish(partition: Partition) -> tuple[int, ...] | None:
    return None if partition.followers is None else partition.followers.wished
