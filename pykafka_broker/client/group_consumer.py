"""A consumer in a group: reads the partitions that the group assigns, from the committed positions, and commits.

Rule: a position is committed only for records that `poll` returned before its latest call: a caller who polls again has
dealt with them, and so has one who closes the consumer. With `enable.auto.commit` that happens every
`auto.commit.interval.ms`, while `poll` goes on, before partitions are revoked, and at the end; such a commit may fail,
as with Java's consumer: the failure is logged, and the next one tries again. A committed offset that an open
transaction may still change is waited for, however long the transaction lasts. A member whose caller does not poll for
`max.poll.interval.ms` leaves the group, and joins again with the next `poll` (KIP-62).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from pykafka_broker.client.cluster import Backoff, Client, check_topic
from pykafka_broker.client.consumer import CLOSED, Chunk, Consumer
from pykafka_broker.client.errors import ClientError, KafkaError
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets
from pykafka_broker.client.membership import ClassicMembership, ConsumerMembership, GroupSettings, PolledMembership
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_CLOSE_S = 30  # Kafka: CloseOptions, the default time-out
_NO_MEMBER = "Offset commit cannot be completed since the consumer is not part of an active group."
Wanted = Callable[[str], bool]
Told = Callable[[list[TopicPartition]], object]


class GroupConsumer:
    """A consumer in a group: `async with GroupConsumer(client, properties, topics) as consumer`, `poll`, `commit`.

    Args:
        topics: names, or a function that tells whether a name is subscribed to.
        on_assigned: called with partitions that were assigned.
        on_revoked: called with partitions that were revoked or lost.
    """

    def __init__(
        self,
        client: Client,
        properties: Mapping[str, str],
        topics: list[str] | Wanted,
        *,
        on_assigned: Told = lambda _: None,
        on_revoked: Told = lambda _: None,
    ) -> None:
        merged = {**client.properties, **properties}
        self.settings = GroupSettings(merged)
        self.consumer = Consumer(client, merged, on_created_again=self._forget_committed)
        self._client = client
        self._wanted = topics
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        kind = ConsumerMembership if self.settings.new_protocol else ClassicMembership
        self._member = kind(client, self.settings, self._topics, self)
        self._running: asyncio.Task[None] | None = None
        self._committed: dict[TopicPartition, Committed] = {}
        self._commit_at = 0
        self._committing: asyncio.Task[None] | None = None  # the last commit of `poll`
        self._turn_to_commit = asyncio.Lock()  # of two commits the older could win
        interval_ms = self.settings.rebalance_timeout_ms
        self._polled = PolledMembership(client, self._member, self.settings.group_id, interval_ms, self.lose)

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._polled.run())
        self._running.add_done_callback(self._member_ended)
        self._commit_at = self._client.deadline(self.settings.auto_commit_interval_ms)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._running is None:
            return  # closed before
        running, self._running = self._running, None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        try:
            if self.settings.auto_commit:
                await self._commit_at_last()
            self._on_revoked(self.consumer.assignment)
            await self._member.leave()
        except ClientError:
            if kind is None:
                raise
        finally:
            if self._committing is not None:
                self._committing.cancel()
                await asyncio.gather(self._committing, return_exceptions=True)
            await self.consumer.__aexit__()

    def _member_ended(self, running: asyncio.Task[None]) -> None:
        """Let the `poll` that waits raise the error that has ended the member."""
        if not running.cancelled() and isinstance(error := running.exception(), Exception):
            self.consumer.fail(error)

    # -- records

    async def poll(self, timeout_ms: int, max_records: int | None = None) -> list[Chunk]:
        """Wait for records, as `Consumer.poll`. Raises ClientError, also if the group refuses the member."""
        if self._running is None:
            raise ClientError(CLOSED)
        if self._running.done():
            self._running.result()
        if self.settings.auto_commit:
            self._commit_if_due()
        with self._polled.poll():
            await asyncio.sleep(0)  # commits and heartbeats go on, however many records are there already
            return await self.consumer.poll(timeout_ms, max_records)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit the given offsets, or the positions of the consumer. Raises ClientError."""
        self.consumer.check_open()
        moved = self._moved(self.consumer.position) if offsets is None else dict(offsets)
        self.consumer.dealt_with(moved)
        await self._commit(moved)

    async def _commit(self, moved: Mapping[TopicPartition, int]) -> None:
        """Commit offsets, again if a heartbeat has brought a new member epoch meanwhile. Raises ClientError."""
        if not moved:
            return
        settings, member = self.settings, self._member
        offsets = {each: Committed(offset, self.consumer.epoch_before(each, offset)) for each, offset in moved.items()}
        lowest = 9 if settings.new_protocol else 7 if settings.instance_id else 2
        async with self._turn_to_commit:
            while True:
                generation = member.generation
                if generation <= 0:  # with which anybody may commit while the group has no members
                    raise ClientError(_NO_MEMBER)
                known_as = (generation, member.member_id, settings.instance_id)
                try:
                    await commit_offsets(self._client, settings.group_id, offsets, member=known_as, lowest=lowest)
                    break
                except KafkaError as error:
                    if error.code != ErrorCode.STALE_MEMBER_EPOCH or member.generation == generation:
                        raise
            self._committed.update(offsets)

    def _commit_if_due(self) -> None:
        """Begin to commit the positions, unless that is under way. Raises KafkaError as `_commit_by_itself` did."""
        if self._committing is not None and self._committing.done():
            self._committing.result()
            self._committing = None
        if self._committing is None and self._client.deadline(0) >= self._commit_at:
            self._commit_at = self._client.deadline(self.settings.auto_commit_interval_ms)
            self._committing = asyncio.create_task(self._commit_by_itself(self._moved(self.consumer.position)))

    async def _commit_by_itself(self, moved: Mapping[TopicPartition, int]) -> None:
        """Commit positions; log a failure. Raises KafkaError if another member has the instance id."""
        try:
            await self._commit(moved)
        except ClientError as error:
            if isinstance(error, KafkaError) and error.code == ErrorCode.FENCED_INSTANCE_ID:
                raise
            logger.warning("the positions of group %s were not committed: %s", self.settings.group_id, error)

    async def _commit_at_last(self) -> None:
        """Commit the positions before the end, which waits for that no longer than Kafka's consumer."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._commit_by_itself(self._moved(self.consumer.position))
        except TimeoutError:
            logger.warning("the positions of group %s were not committed in %d s", self.settings.group_id, _CLOSE_S)

    def _moved(self, position: Callable[[TopicPartition], int | None]) -> dict[TopicPartition, int]:
        """Return the positions that are not committed yet."""
        found = {}
        for each in self.consumer.assignment:
            offset, known = position(each), self._committed.get(each)
            if offset is None:
                continue
            epoch = self.consumer.epoch_before(each, offset)
            if known is None or known.offset != offset or epoch not in (-1, known.leader_epoch):
                found[each] = offset
        return found

    # -- assigned and revoked partitions

    async def _topics(self) -> dict[str, int]:
        if callable(self._wanted):
            answer = await self._client.until_answered(lambda: self._client.metadata(None))
            internal = not self.settings.exclude_internal_topics
            wanted, chosen = self._wanted, [each for each in answer.topics if internal or not each.is_internal]
            return {each.name: len(each.partitions) for each in chosen if each.name and wanted(each.name)}
        names = self._wanted
        answer = await self._client.until_answered(lambda: self._client.metadata(names, create=True))
        for topic in answer.topics:
            check_topic(topic.name or "", topic.error_code)
        counts = {each.name: len(each.partitions) for each in answer.topics}
        return {name: counts.get(name, 0) for name in names}

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read further partitions, which the group has assigned."""
        new = list(partitions)
        found = await self._client.until_answered(lambda: self._committed_of(new)) if new else {}
        self.consumer.assign([*self.consumer.assignment, *new])
        for each in new:
            self._committed.pop(each, None)
        for each, committed in found.items():
            self.consumer.seek(each, committed.offset, committed.leader_epoch)
            self._committed[each] = committed
        self._on_assigned(new)

    def _forget_committed(self, partition: TopicPartition) -> None:
        """Forget a committed position, as the group does when the topic is deleted."""
        self._committed.pop(partition, None)

    async def _committed_of(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return committed offsets; heartbeats tell a member whose epoch is refused about a new one, or its end."""
        member, backoff = self._member, Backoff(self._client)
        while True:
            epochs = (member.member_id, member.generation) if self.settings.new_protocol else None
            try:
                return await committed_offsets(
                    self._client, self.settings.group_id, partitions, member=epochs, stable=True
                )
            except KafkaError as error:
                if error.code not in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                    raise
            await backoff.pause()

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit and stop to read partitions, which the group takes back."""
        gone = list(partitions)
        self.consumer.pause(gone)
        if self.settings.auto_commit:
            await self._commit_by_itself(self._moved(self.consumer.position_before))
        self.consumer.assign([each for each in self.consumer.assignment if each not in gone])
        self._on_revoked(gone)

    def lose(self) -> None:
        gone = self.consumer.assignment
        self.consumer.assign([])
        self._on_revoked(gone)
