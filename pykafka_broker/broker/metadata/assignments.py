"""The log directories of this node's replicas, as reported to the controller (KIP-858).

Rule: one request is under way at a time, and the next request carries everything known by then. A replica that the
controller has not taken is reported again. A controller in this process hears of each change at once, so that the
answer to the creation of a topic covers the directories too. A controller on another node assigns the directory of a
node with a single directory itself: such a node reports a replica only if the metadata names another directory, as
after an exchange of the disk. Offline and cordoned directories are reported elsewhere (`on_change`).

A replica whose log is damaged is reported as lost, so that another replica in sync leads: the directory serves other
logs. The start after a repair reports the directory again. Where no other replica is in sync, nothing is reported: a
leader that comes back to its directory is not elected again by that. A log that only turns out to be damaged while it
is served stays in service then.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka_broker.cluster.controller import partition_record_version
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.log.checkpoints import LOST, MIGRATING, UNASSIGNED
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.node import ServerNode
    from pykafka_broker.broker.waiting.future import Future
    from pykafka_broker.cluster.image import MetadataDelta, PartitionImage, TopicImage
    from pykafka_broker.log.flush import Waiter
    from pykafka_broker.log.log_directory import LogDirectory
    from pykafka_broker.peers import LinkError
    from pykafka_broker.protocol.enums import PartitionKey
    from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
    from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
    from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

_REPLICAS_PER_REQUEST = 2_250
_TIMEOUT_MS = 10_000
_RETRY_MS = 500
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_Replica = tuple[bytes, int]  # topic id and partition


class AssignmentsManager:
    """The reports of a node to its controller, of the directory of each replica (Kafka: AssignmentsManager).

    on_change: called when a directory has failed, when other directories are cordoned than before, and when the
    metadata version changes.
    """

    def __init__(self, node: ServerNode) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._node = node
        self._in_process = node.metadata_leader is not None
        self._wanted: dict[_Replica, bytes] = {}  # directory ids that the controller does not know yet
        self._waiters: dict[_Replica, list[Waiter]] = {}
        self._asking = False
        self._started = False
        self._due: int | None = None

    # -- what the controller is to know

    def start(self) -> None:
        """Begin to report. Called once the logs have followed the metadata."""
        self._started = True
        self._node.replicas.on_made = self.assign_directory
        self._compare_all()
        self._tell()

    def follow(self, delta: MetadataDelta) -> None:
        """Report new logs. Called after each change of the metadata, once the partitions have followed the change."""
        if not self._started:
            return
        if METADATA_VERSION in delta.features:  # the new version may be the first that knows directories
            self._compare_all()
            self.on_change()
        if self._tells_each:
            self._compare(delta.new_partitions)
            self._compare(delta.changed_partitions)
        self._tell()

    def assign_directory(self, key: PartitionKey) -> None:
        """Report the directory of a new, moved or damaged log."""
        if not self._started:
            return
        topic = self._node.image.topics.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if topic is not None and partition is not None:
            self._compare([(topic, partition)])
            self._tell()

    def can_spare(self, key: PartitionKey) -> bool:
        """Return whether another replica is in sync, which leads once this node's log is reported as lost."""
        image = self._node.image
        partition = image.partition(*key)
        return partition is not None and bool(partition_record_version(image)) and self._is_elsewhere(partition)

    def prepare_move(self, key: PartitionKey, target: LogDirectory, waiter: Waiter) -> None:
        """Report the coming move of a log to `target`.

        Without a report before the move, a log could begin anew: the log moves, the node crashes before the controller
        knows, and the node comes back without `target`. The metadata would name the old directory, which has no log.

        Args:
            waiter: called when the metadata that names `target` is committed, or the directory of a later call for the
                log; with ENOENT if the log is no replica of this node any more.
        """
        topic = self._node.image.topics.get(key[0])
        if not self._started:
            waiter(None)
        elif topic is None:
            waiter(OSError(errno.ENOENT, "there is no such topic any more"))
        elif not partition_record_version(self._node.image):
            self._confirm(waiter)
        else:
            replica = topic.id, key[1]
            self._wanted[replica] = target.id
            self._waiters.setdefault(replica, []).append(waiter)
            self._tell()

    @property
    def _tells_each(self) -> bool:
        """Whether each new replica is reported, since the controller does not assign the directory itself."""
        return self._in_process or len(self._node.logs.partition_directories) > 1

    def _compare_all(self) -> None:
        for topic in self._node.image.topics.values():
            self._compare((topic, partition) for partition in topic.partitions.values())

    def _compare(self, partitions: Iterable[tuple[TopicImage, PartitionImage]]) -> None:
        node = self._node
        if not partition_record_version(node.image):
            return
        node_id, logs, tells_each = node.id, node.logs, self._tells_each
        for topic, partition in partitions:
            replica = topic.id, partition.partition
            if node_id not in partition.replicas or replica in self._waiters:
                continue
            key = topic.name, partition.partition
            wanted, directory = partition.directory_of(node_id), logs.directory_of(key)
            if key in logs.damaged and self._is_elsewhere(partition):
                wanted = LOST
            elif directory is not None and directory.online and (tells_each or wanted not in (MIGRATING, UNASSIGNED)):
                wanted = directory.id
            if wanted == partition.directory_of(node_id):
                self._wanted.pop(replica, None)
            else:
                self._wanted[replica] = wanted

    def _is_elsewhere(self, partition: PartitionImage) -> bool:
        return any(each != self._node.id for each in partition.isr)

    # -- telling

    def next_deadline(self) -> int | None:
        return None if self._asking or not self._wanted else self._due

    def on_deadline(self, now: int) -> None:
        self._due = None
        self._send()

    def _tell(self) -> None:
        """Report to a controller in the process now, to another node at the next turn, with everything known then."""
        if not self._wanted:
            return
        if not self._in_process:
            if self._due is None:
                self._due = self._node.clock.now
            return
        left = len(self._wanted) + 1
        while self._wanted and len(self._wanted) < left:
            left = len(self._wanted)
            self._send()

    def _send(self) -> None:
        if self._asking or not self._wanted:
            return
        self._asking = True
        sent = dict(list(self._wanted.items())[:_REPLICAS_PER_REQUEST])
        request = _request(self._node.id, self._node.broker_epoch, sent)
        self._node.metadata.ask(request, lambda reply: self._on_reply(sent, reply), _TIMEOUT_MS)

    def _on_reply(self, sent: dict[_Replica, bytes], reply: Message | LinkError) -> None:
        from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

        self._asking = False
        if isinstance(reply, AssignReplicasToDirsResponse) and not reply.error_code:
            self._note_answers(sent, reply)
        else:
            why = ErrorCode(reply.error_code).name if isinstance(reply, AssignReplicasToDirsResponse) else reply
            logger.warning("the controller was not told the directories of %d replicas: %s", len(sent), why)
        if self._wanted:
            self._due = self._node.clock.now + _RETRY_MS

    def _note_answers(self, sent: dict[_Replica, bytes], response: AssignReplicasToDirsResponse) -> None:
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    replica = bytes(topic.topic_id), partition.partition_index
                    code = ErrorCode(partition.error_code)
                    self._note_answer(replica, sent.get(replica), bytes(directory.id), code)

    def _note_answer(self, replica: _Replica, sent: bytes | None, directory_id: bytes, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE and code not in _GONE:
            return
        if not sent == self._wanted.get(replica) == directory_id:
            return  # another directory is wanted since then, and all waiters wait for that
        del self._wanted[replica]
        for waiter in self._waiters.pop(replica, ()):
            if code is ErrorCode.NONE:
                self._confirm(waiter)
            else:
                waiter(OSError(errno.ENOENT, code.name))

    def _confirm(self, waiter: Waiter) -> None:
        """Call `waiter` when the present metadata is committed."""

        def committed(future: Future[None]) -> None:
            waiter(None if future.error is None else OSError(errno.EIO, str(future.error)))

        self._node.metadata.committed().add_done_callback(committed)


def _request(node_id: int, broker_epoch: int, wanted: dict[_Replica, bytes]) -> AssignReplicasToDirsRequest:
    from pykafka_broker.protocol.messages import assign_replicas_to_dirs_request as told  # not needed for a start

    directories: dict[bytes, dict[bytes, list[told.PartitionData]]] = {}
    for (topic_id, partition), directory_id in wanted.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(told.PartitionData(partition))
    return told.AssignReplicasToDirsRequest(
        node_id,
        broker_epoch,
        [
            told.DirectoryData(directory_id, [told.TopicData(topic_id, some) for topic_id, some in topics.items()])
            for directory_id, topics in directories.items()
        ],
    )
