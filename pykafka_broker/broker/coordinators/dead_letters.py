"""The writer of dead letters: what share groups give up goes to their dead-letter topics (KIP-1191).

Rule: the dead letters of a share partition are written in order, one batch after the other, and a batch is committed
before the next one is built. The writer tells when letters are done with, whether they were written or could not be:
a group never waits for its dead-letter topic longer than some seconds. A leader that may be there in a moment is tried
again; any other refusal is logged, and the letters are lost.

The topic has to exist, or may be created (`errors.deadletterqueue.auto.create.topics.enable`), has to take dead letters
(`errors.deadletterqueue.group.enable`), and its name has to begin as the broker says. A letter about partition p goes
to partition p modulo the partitions of the topic. Where another broker leads it, a Produce request carries the batch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.waiting.future import Future, Steps
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.coordinators.share.dead_letters import DeadLetters, Original, letter_batches
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.produce_response import ProduceResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.compression import NONE, codec_by_name, level_of
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, UnsupportedCompression
from pykafka_broker.records.header import iter_batches, set_max_timestamp
from pykafka_broker.records.record import iter_records

log = logging.getLogger(__name__)

ENABLE = "errors.deadletterqueue.group.enable"
_ALL = -1  # acks
_TRIES = 9  # which is 26 seconds, about as long as Kafka tries
_RETRY_MS = 100  # doubled each time
_READ_BYTES = 1 << 20
_REQUEST_BYTES = 8 << 20
_ANOTHER_TIME = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class _Batch(Future[None]):
    """A batch on the way to the broker that leads the partition."""

    __slots__ = ("partition", "records")

    def __init__(self, partition: tuple[str, int], records: bytearray) -> None:
        super().__init__()
        self.partition = partition
        self.records = records


class DeadLetterProducer(RequestBatcher[_Batch]):
    """The batches of dead letters of a node for partitions that other brokers lead."""

    client_id = "share-dlq-%d"
    versions = (3, 12)  # by name

    def _end_moved(self, broker_id: int, wanted: _Batch) -> bool:
        if wanted.done or self._leads(broker_id, wanted.partition):
            return False
        wanted.fail(ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return True

    def _choose(self, waiting: list[_Batch]) -> tuple[list[_Batch], list[_Batch]]:
        """Choose a batch for each partition, as many as a request should hold."""
        now: dict[tuple[str, int], _Batch] = {}
        later: list[_Batch] = []
        size = 0
        for batch in waiting:
            if batch.done:
                continue
            if batch.partition in now or (now and size + len(batch.records) > _REQUEST_BYTES):
                later.append(batch)
            else:
                now[batch.partition] = batch
                size += len(batch.records)
        return list(now.values()), later

    def _request(self, wanted: list[_Batch]) -> Message:
        partitions = [(batch.partition, batch.records) for batch in wanted]
        topics = by_topic((topic, PartitionProduceData(index, records)) for (topic, index), records in partitions)
        data = [TopicProduceData(name, partition_data=some) for name, some in topics.items()]
        return ProduceRequest(None, _ALL, self._node.config.request_timeout_ms, data)

    def _complete(self, wanted: list[_Batch], answer: Message | LinkError) -> None:
        refused: dict[tuple[str, int], ApiError | None] = {}
        if isinstance(answer, ProduceResponse):
            for topic in answer.responses:
                for each in topic.partition_responses:
                    error = ApiError(ErrorCode(each.error_code), each.error_message) if each.error_code else None
                    refused[topic.name, each.index] = error
        for batch in wanted:
            error = refused.get(batch.partition, ApiError(ErrorCode.NETWORK_EXCEPTION))
            if error is None:
                batch.complete(None)
            else:
                batch.fail(error)


class DeadLetterWriter:
    """The dead letters of a node's share partitions (Kafka: ShareGroupDLQStateManager).

    settings: returns the settings of a group.
    done_with: called when letters are written, or given up as well.
    """

    def __init__(
        self,
        node: ServerNode,
        settings: Callable[[str], GroupConfig],
        done_with: Callable[[ShareKey, DeadLetters], None],
    ) -> None:
        self._node = node
        self._settings = settings
        self._done_with = done_with
        self._queues: dict[ShareKey, deque[DeadLetters]] = {}  # the first of each is being written
        self._producer = DeadLetterProducer(node)
        self._pauses: list[tuple[int, Future[None]]] = []

    def write(self, key: ShareKey, letters: Iterable[DeadLetters]) -> None:
        """Write letters after those of the share partition that wait already; letters known here come once."""
        queue = self._queues.get(key)
        if queue is not None:
            queue.extend([left for each in letters for left in each.without(queue)])
            return
        queue = self._queues[key] = deque(letters)
        self._node.slices.unasked(self._write_all(key, queue))

    def forget(self, lost: Collection[tuple[bytes, int]]) -> None:
        """Write no more letters of partitions that other nodes lead, by topic id and index."""
        for key in [key for key in self._queues if (key.topic_id, key.partition) in lost]:
            del self._queues[key]

    def follow(self) -> None:
        """Look for leaders anew: the metadata has changed."""
        self._producer.forget_moved()

    # -- one share partition

    def _write_all(self, key: ShareKey, queue: deque[DeadLetters]) -> Steps[None]:
        try:
            while queue:
                letters = queue[0]
                try:
                    yield from self._write(key, letters)
                except ApiError as error:
                    offsets = f"offsets {letters.first} to {letters.last} of partition {key.partition}"
                    log.warning("share group %s: no dead letters of %s: %s", key.group_id, offsets, error)
                if self._queues.get(key) is not queue:
                    return
                queue.popleft()
                self._done_with(key, letters)
        finally:
            if self._queues.get(key) is queue:
                del self._queues[key]

    def _write(self, key: ShareKey, letters: DeadLetters) -> Steps[None]:
        """Write letters. Raises ApiError for the first batch that can't be written."""
        source, settings = self._node.image.topics_by_id.get(key.topic_id), self._settings(key.group_id)
        topic = settings.errors_deadletterqueue_topic_name
        if source is None or not topic:
            return
        yield from self._ready(topic)
        originals: Iterable[tuple[int, Original]] = ()
        if settings.errors_deadletterqueue_copy_record_enable:
            originals = _originals(self._node.replicas.leader(source.name, key.partition).log, letters)
        config = self._node.topic_config(topic)
        codec = NONE if config.compression_type == "producer" else codec_by_name(config.compression_type)
        batches = letter_batches(
            letters,
            originals,
            source.name,
            key.partition,
            key.group_id,
            max_bytes=config.max_message_bytes,
            now=self._node.clock.wall,
            codec=codec,
            level=level_of(config),
        )
        for number, batch in enumerate(batches):
            if number:
                yield None
            yield from self._deliver(topic, key.partition, batch)

    def _ready(self, topic: str) -> Steps[None]:
        """Check the topic of dead letters; a missing topic is created where that is allowed. Raises ApiError."""
        config = self._node.config
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not topic.startswith(prefix):
            raise _refused(f"the name of topic {topic} does not begin with {prefix}")
        if topic not in self._node.image.topics:
            if not config.errors_deadletterqueue_auto_create_topics_enable:
                raise _refused(f"there is no topic {topic}, and such topics are not created")
            check_topic_name(topic)
            configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
            overrides = [CreatableTopicConfig(name, value) for name, value in configs.items()]
            [result] = self._node.metadata.create_topics([CreatableTopic(topic, -1, -1, configs=overrides)])
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise ApiError(ErrorCode(result.error_code), result.error_message)
            for tried in range(_TRIES):
                if topic in self._node.image.topics:
                    break
                yield self._pause(tried)
            else:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} was not created")
        if not self._node.topic_config(topic).errors_deadletterqueue_group_enable:
            raise _refused(f"topic {topic} takes no dead letters ({ENABLE})")

    def _deliver(self, topic: str, source: int, batch: bytearray) -> Steps[None]:
        """Have the leader of a partition commit a batch. Raises ApiError after some tries, or a refusal at once."""
        for tried in range(1, _TRIES + 1):
            try:
                known = self._node.image.topics.get(topic)
                if known is None:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                index = source % len(known.partitions)
                leader = self._node.other_leader(topic, index)
                if leader is None:
                    yield from self._append(topic, index, batch)
                else:
                    wanted = _Batch((topic, index), batch)
                    self._producer.send(leader, wanted)
                    yield wanted
                return
            except ApiError as error:
                if error.code not in _ANOTHER_TIME or tried == _TRIES:
                    raise
                log.debug("dead letters for %s are tried again: %s", topic, error)
            yield self._pause(tried)

    def _append(self, topic: str, index: int, batch: bytearray) -> Steps[None]:
        """Append a batch in a partition that this node leads, and wait for the commit.

        The batch is checked for what a topic may refuse in a sound batch: its size, its place in the ISR, null keys.
        """
        partition, wall = self._node.replicas.leader(topic, index), self._node.clock.wall
        config = partition.log.config
        if len(batch) > config.max_message_bytes:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        if "compact" in config.cleanup_policy and any(record.key is None for record in iter_records(batch)):
            raise ApiError(ErrorCode.INVALID_RECORD, "Compacted topic cannot accept message without key")
        if config.min_insync_replicas > 1:
            partition.check_insync(config.min_insync_replicas)
        own = bytearray(batch)  # the log numbers its records, and another leader may have to be sent the batch
        if config.message_timestamp_type == "LogAppendTime":
            set_max_timestamp(own, wall, log_append_time=True)
        appended = partition.append(own, wall)
        yield partition.committed(appended.last_offset + 1)

    # -- time

    def _pause(self, tried: int) -> Future[None]:
        """Return a future that is done after a while, longer after more tries."""
        pause: Future[None] = Future()
        self._pauses.append((self._node.clock.now + (_RETRY_MS << max(0, tried - 1)), pause))
        return pause

    def next_deadline(self) -> int | None:
        return min((at for at, _ in self._pauses), default=None)

    def on_deadline(self, now: int) -> None:
        over = [pause for at, pause in self._pauses if at <= now]
        self._pauses = [each for each in self._pauses if each[0] > now]
        for pause in over:
            pause.complete(None)


def _refused(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, why)


def _originals(source: PartitionLog, letters: DeadLetters) -> Iterator[tuple[int, Original]]:
    """Yield the records in the batches of the letters by offset, as far as they can be read.

    There is none if the first of them is gone.
    """
    offset = letters.first
    try:
        while offset <= letters.last:
            found = source.read(offset, _READ_BYTES, source.high_watermark)
            if found is None:
                return
            for header, batch in iter_batches(source.bytes_of(found.records)):
                offset = header.last_offset + 1
                if not header.is_control:
                    for record in iter_records(batch, header):
                        yield record.offset, Original(record.key, record.value)
                if offset > letters.last:
                    return
    except (ApiError, CorruptBatch, InvalidRecord, UnsupportedCompression) as error:
        log.warning("records from offset %d on are not copied to dead letters: %s", offset, error)
