"""Fetches of followers (`replica_id` of Fetch; from v15 on `replica_state`).

Rule: a follower reads to the log's end, and by asking for an offset says that it has all records below. A fetch is
checked before it is believed: the node must have a replica, its broker epoch must be the newest known, and its last
record must be of this log's history. A fetch is answered at once when the follower knows an older high watermark or log
start offset. Imported at the first fetch of a follower: a node alone never needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress

from pykafka_broker.broker.api.fetch import FetchAttempt, Found, PartitionReader, slices_of
from pykafka_broker.broker.partitions.fetch_session import FetchedPartition, FetchSession, Key, SessionWatch
from pykafka_broker.broker.partitions.partition import NO_EPOCH, Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchRequest
from pykafka_broker.protocol.messages.fetch_response import FetchResponse, NodeEndpoint, PartitionData


class ReplicaReader(PartitionReader):
    """A reader of partitions for a follower."""

    __slots__ = (
        "_is_follower",
        "_replica_id",
        "_throttle",
        "broker_epoch",
        "has_progress",
        "no_room",
        "unnoted",
        "watch",
    )

    def __init__(self, services: Services, context: RequestContext, replica_id: int, broker_epoch: int) -> None:
        super().__init__(services, context, committed=False)
        self._replica = services.replicas.leader
        replication = services.replicas.replication
        self._throttle = None if replication is None else replication.leader_throttle
        self._replica_id = replica_id
        self.broker_epoch = broker_epoch
        self._is_follower = services.allows(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
        self.unnoted: set[Key] = set()  # partitions whose fetch positions in the request are not noted yet
        self.watch: SessionWatch | None = None
        self.has_progress = False  # the follower knows an older high watermark or log start offset
        self.no_room: dict[Key, None] = {}  # partitions with records that did not fit into the answer

    def _authorise(self, topic: str) -> None:
        if not self._is_follower:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def endpoints(self) -> list[NodeEndpoint]:
        """Return no address: a follower has them from the metadata."""
        return []

    def _read(self, wanted: FetchedPartition, max_bytes: int, at_least_one: bool) -> PartitionData:
        partition = self._find(wanted)
        log = partition.log
        names_epoch = wanted.current_leader_epoch > NO_EPOCH
        partition.check_follower(self._replica_id, self.broker_epoch, names_epoch=names_epoch)
        data = PartitionData(
            wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0 and self._diverges(log, wanted, data):
            return data
        self._read_records(partition, wanted, max_bytes, at_least_one, data)
        if (wanted.topic, wanted.partition) in self.unnoted:
            self._note_position(partition, wanted)
            data.high_watermark, data.last_stable_offset = log.high_watermark, log.last_stable_offset
        if max(wanted.high_watermark, 0) < log.high_watermark or -1 < wanted.log_start_offset < log.log_start_offset:
            self.has_progress = True
        return data

    def _read_records(
        self, partition: Partition, wanted: FetchedPartition, max_bytes: int, at_least_one: bool, data: PartitionData
    ) -> None:
        log, read = partition.log, None
        if not self._is_throttled(partition):
            read = log.read(wanted.fetch_offset, max_bytes, log.log_end_offset, min_one=at_least_one)
        if read is not None:
            data.records = read.records
        elif wanted.fetch_offset < log.log_end_offset:
            self.no_room[wanted.topic, wanted.partition] = None

    def _is_throttled(self, partition: Partition) -> bool:
        now, throttle = self._services.clock.now, self._throttle
        return throttle is not None and throttle.held_ms(partition, self._replica_id, now) > 0

    def record(self, found: list[Found]) -> None:
        """Count the records of an answer for the throttle: once, however often the fetch was tried."""
        if self._throttle is not None:
            for wanted, _, size in found:
                if size:
                    with suppress(ApiError):  # the partition has gone since it was read
                        self._throttle.record(self._find(wanted), size, self._services.clock.now)

    def bytes_there(self, wanted: FetchedPartition, data: PartitionData) -> int:
        try:
            partition = self._find(wanted)
            log = partition.log
            return 0 if self._is_throttled(partition) else log.bytes_between(wanted.fetch_offset, log.log_end_offset)
        except ApiError:
            return 0  # the next look at the partition tells the error

    def _note_position(self, partition: Partition, wanted: FetchedPartition) -> None:
        """Note the follower's position, once for each request, however often the request is tried."""
        key = wanted.topic, wanted.partition
        self.unnoted.remove(key)
        partition.fetched_by(
            self._replica_id,
            wanted.fetch_offset,
            self._services.clock.now,
            broker_epoch=self.broker_epoch,
            log_start_offset=wanted.log_start_of_replica,
            watch=None if self.watch is None else (self.watch, key),
        )


class ReplicaFetchAttempt(FetchAttempt):
    """A fetch of a follower."""

    __slots__ = ("_replica_reader",)
    PRIVILEGED = True

    def __init__(self, services: Services, context: RequestContext, request: FetchRequest) -> None:
        super().__init__(services, context, request)
        session, reader = self._session, self._replica_reader
        if session is not None and session.watch is None:
            session.watch = SessionWatch(session, services.purgatory.touch)
        reader.watch = None if session is None else session.watch
        if reader.watch is not None:
            reader.watch.broker_epoch = reader.broker_epoch
        if not self._incremental:
            reader.unnoted = {(each.topic, each.partition) for each in self._partitions}

    def _reader_for(self, services: Services, context: RequestContext, request: FetchRequest) -> PartitionReader:
        state = request.replica_state
        epoch = state.replica_epoch if state.replica_id >= 0 else NO_EPOCH
        self._replica_reader = ReplicaReader(services, context, max(state.replica_id, request.replica_id), epoch)
        return self._replica_reader

    def _to_read(self, session: FetchSession, named: list[FetchedPartition]) -> list[FetchedPartition]:
        """Return the partitions with something new, and the partitions that the request names."""
        reader, watch = self._replica_reader, session.watch
        if watch is not None and watch.broker_epoch != reader.broker_epoch:
            # the follower's broker is registered anew: its positions in idle partitions count with the new epoch, too
            named = list(session.partitions.values())
        elif watch is not None:
            named = [*named, *_of_session(session, watch.take_lost())]
        reader.unnoted = {(each.topic, each.partition) for each in named}
        changed = [] if watch is None else watch.take()
        return _of_session(session, [*changed, *((each.topic, each.partition) for each in named)])

    def watched(self) -> Sequence[Hashable]:
        watch = self._replica_reader.watch
        return super().watched() if watch is None else (watch,)

    def poll(self, now: int) -> FetchResponse | None:
        watch = self._replica_reader.watch
        while True:
            self._add_changed()
            found, size, failed = self._read_all()
            if not self._waits(found, size, failed):
                return self._finish(found)
            if watch is None:
                return None
            if self._incremental:  # the answer that opens a session has to name all partitions
                # the other partitions come back when they change
                no_room = self._replica_reader.no_room
                self._partitions = [each for each, _, got in found if got or (each.topic, each.partition) in no_room]
            if not watch:
                return None

    def answer(self, now: int) -> FetchResponse:
        self._add_changed()
        return self._finish(self._read_all()[0])

    def poll_in_slices(self, may_wait: Callable[[], bool]) -> Steps[FetchResponse | list[Partition]]:
        """Answer at once: a fetch names many partitions only at the begin of a session."""
        if self._session is None:
            return (yield from super().poll_in_slices(may_wait))
        found: list[Found] = []
        size = 0
        for some in slices_of(self._partitions):
            more, size, _ = self._read(some, size)
            found += more
            yield None
        return self._finish(found)

    def _add_changed(self) -> None:
        watch, session = self._replica_reader.watch, self._session
        if watch and session is not None:
            known = {(each.topic, each.partition) for each in self._partitions}
            self._partitions += _of_session(session, [key for key in watch.take() if key not in known])

    def _read_all(self) -> tuple[list[Found], int, bool]:
        self._replica_reader.no_room = {}
        return self._read(self._partitions, 0)

    def _finish(self, found: list[Found]) -> FetchResponse:
        reader = self._replica_reader
        if reader.watch is not None and reader.no_room:
            reader.watch.put_back(list(reader.no_room))
        return self._respond(self._to_answer(found))

    def _respond(self, found: list[Found]) -> FetchResponse:
        self._replica_reader.record(found)
        return super()._respond(found)

    def _waits(self, found: list[Found], size: int, failed: bool) -> bool:
        if self._session is None:  # without a session, what the follower knows is not known
            return super()._waits(found, size, failed)
        if failed or size >= self._min_bytes or not self._patient or self._replica_reader.has_progress:
            return False
        # an error is answered at once: the next fetch does not look at the partition again
        return not any(data.error_code for _, data, _ in found) and not self._has_enough(found)


def _of_session(session: FetchSession, keys: list[Key]) -> list[FetchedPartition]:
    """Return the partitions of the session among the keys, each once."""
    return [session.partitions[key] for key in dict.fromkeys(keys) if key in session.partitions]
