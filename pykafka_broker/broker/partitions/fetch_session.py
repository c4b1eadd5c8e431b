"""Fetch sessions (KIP-227): a client names its partitions once, then only changes; answers leave out the unchanged.

Rule: a session is soft state of this process, and a client that meets an unknown one starts anew. Epoch 0 opens, -1
closes, then epochs count up and wrap from 2^31-1 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pykafka_broker.broker.partitions.partition import NO_EPOCH
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
FIRST_EPOCH = 1  # of the request after the one that opens the session
MAX_EPOCH = 0x7FFFFFFF
NO_SESSION = 0

Key = tuple[Any, int]  # topic id (bytes) or topic name (str), partition index


class FetchedPartition:
    """A partition of a session: the client's fetch position, and the offsets that the client was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_of_replica",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: Any,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_of_replica: int = -1,
    ) -> None:
        self.topic = topic  # the id where the request names ids, else the name
        self.name = ""  # the last known name of the id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_of_replica = log_start_of_replica
        self.high_watermark = self.log_start_offset = -1

    def changed(self, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether the client has not been told these offsets yet, and remember them.

        Called with -1 after an error, so that the next answer tells the offsets again.
        """
        changed = self.high_watermark != high_watermark or self.log_start_offset != log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        return changed


class FetchSession:
    """The partitions of a client's incremental fetches, in reading order (Kafka: FetchSession)."""

    __slots__ = ("created", "epoch", "id", "last_used", "partitions", "privileged", "uses_topic_ids", "watch")

    def __init__(
        self, id: int, now: int, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, privileged: bool
    ) -> None:
        self.id = id
        self.epoch = FIRST_EPOCH  # of the next request
        self.created = self.last_used = now
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.watch: SessionWatch | None = None  # of a follower's session

    @property
    def only_partition(self) -> FetchedPartition | None:
        """Return the partition of a session that has one, else None."""
        return next(iter(self.partitions.values())) if len(self.partitions) == 1 else None

    def update(self, wanted: Iterable[FetchedPartition], forgotten: Iterable[Key]) -> None:
        """Add or change the wanted partitions, then remove the forgotten ones."""
        for new in wanted:
            key = (new.topic, new.partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = new
            else:
                if 0 <= known.current_leader_epoch < new.current_leader_epoch:
                    known.changed(-1, -1)  # the client may have passed over the offsets of the epoch before
                known.fetch_offset = new.fetch_offset
                known.max_bytes = new.max_bytes
                known.current_leader_epoch = new.current_leader_epoch
                known.last_fetched_epoch = new.last_fetched_epoch
                known.log_start_of_replica = new.log_start_of_replica
        for key in forgotten:
            self.partitions.pop(key, None)

    def rotate(self, served: list[Key]) -> None:
        """Move partitions with records in the answer to the end, so that no partition starves behind another."""
        for key in served:
            if key in self.partitions:  # a fetch on another connection may have forgotten it meanwhile
                self.partitions[key] = self.partitions.pop(key)


class SessionWatch:
    """The partitions of a follower's session with possible news.

    A follower of a thousand partitions does not cost a look at each of them with every fetch: the leader notes a
    partition of the session (`Partition.moved`), and a fetch looks at the noted partitions and at those that it names.

    touch: wakes the fetch that waits for a note.
    """

    __slots__ = ("_keys", "_lost", "_session", "_touch", "broker_epoch")

    def __init__(self, session: FetchSession, touch: Callable[[Hashable], None]) -> None:
        self._session = session
        self._touch = touch
        self.broker_epoch = NO_EPOCH  # of the follower, as its last request names it
        self._keys: dict[Key, None] = {}  # in their order
        self._lost: dict[Key, None] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def asked_ms(self) -> int:
        """The time of the follower's last fetch of any partition."""
        return self._session.last_used

    def asks(self, key: Key) -> bool:
        """Return whether the follower still fetches a partition."""
        return key in self._session.partitions

    def note(self, key: Key) -> None:
        """Note a partition with possible news."""
        self._keys[key] = None
        self._touch(self)

    def lose(self, key: Key) -> None:
        """Note a partition that another session of the follower has named since."""
        self._lost[key] = None

    def take_lost(self) -> list[Key]:
        """Return the lost partitions, which the next fetch of this session names again."""
        keys, self._lost = self._lost, {}
        return list(keys)

    def put_back(self, keys: list[Key]) -> None:
        """Put partitions back for want of room in an answer; they come first the next time."""
        self._keys = dict.fromkeys(keys) | self._keys

    def take(self) -> list[Key]:
        """Return all noted partitions, and forget the notes."""
        keys, self._keys = self._keys, {}
        return list(keys)


class FetchSessionCache:
    """The sessions, at most `slots`; a new session takes the place of one unused for `eviction_ms`."""

    def __init__(self, slots: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._new_id = new_id  # a random positive int32
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, now: int, *, privileged: bool = False
    ) -> FetchSession | None:
        """Return a new session, or None without room: the client then goes on with full fetches.

        privileged: a follower's session, which may take the place of a client's, and never makes room for a client's.
        """
        if not self._make_room(len(partitions), now, privileged):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, now, partitions, uses_topic_ids, privileged)
        return session

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now: int) -> FetchSession:
        """Return the session of an incremental fetch, and advance its epoch."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = FIRST_EPOCH if epoch == MAX_EPOCH else epoch + 1
        session.last_used = now
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def continued(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession | None:
        """Return the session that `resume` would return, or None where that would raise; change nothing."""
        session = self._sessions.get(session_id)
        if session is None or session.epoch != epoch or session.uses_topic_ids != uses_topic_ids:
            return None
        return session

    def partitions(self, session_id: int) -> list[Key]:
        """Return the partitions of a session; none for an unknown id."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def withdraw(self, session_id: int) -> int:
        """Take back the last answer of a session, which the client has not been given.

        Returns the session id for the client; a session that the client does not know yet is closed.
        """
        session = self._sessions.get(session_id)
        if session is None or session.epoch == FIRST_EPOCH:
            self.close(session_id)
            return NO_SESSION
        for partition in session.partitions.values():
            partition.changed(-1, -1)
        return session_id

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _make_room(self, size: int, now: int, privileged: bool) -> bool:
        if self._slots <= 0:
            return False
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used > self._eviction_ms:
            del self._sessions[oldest.id]
            return True
        # A follower also pushes out a client, and a larger session a smaller one that has stood for the eviction time.
        for session in self._sessions.values():
            old, smaller = now - session.created > self._eviction_ms, len(session.partitions) < size
            if privileged > session.privileged or (privileged == session.privileged and old and smaller):
                del self._sessions[session.id]
                return True
        return False
