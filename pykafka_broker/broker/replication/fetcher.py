"""The partitions that this node follows, and the fetches from their leaders.

Rule: one fetch is open at a leader at a time, in a session (KIP-227): a fetch names the positions that have changed
since the last one, and paused partitions leave the session. An answer counts only for a partition whose log still ends
where the fetch has asked, and is applied whole or not at all. A partition whose answer was dropped leaves the session
for one request, since the leader would not repeat the answer. After a lost session or a broken connection a new session
begins. A new partition does not wait for the open fetch: the leader is asked to answer that at once. Where the leader's
history is another one, the local log is truncated to where both agree (KIP-101, KIP-279, KIP-595). An error of one
partition pauses that partition alone, and damage of its log takes it out of service.

A partition whose leader or leader epoch has changed begins anew with the new leader. The partitions of a leader are
distributed over `num.replica.fetchers`.

Read by `node_replication.py` alone: following is a concept of its own, and both together would be 950 lines.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from pykafka_broker.broker.partitions.fetch_session import FIRST_EPOCH, INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.errors import ApiError
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.peers import LinkError, Peer
from pykafka_broker.protocol.enums import EARLIEST, LATEST, TopicIdPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from pykafka_broker.protocol.messages.fetch_response import FetchResponse, PartitionData
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from pykafka_broker.broker.channels import BrokerChannels
    from pykafka_broker.broker.replication.node_replication import NodeReplication

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 20  # after a change of leaders some nodes know of it a little earlier than others
_UNKNOWN = -1
_NO_LEADER = _NO_REPLICA = -1
_STATE_FROM = 15  # version of a fetch that names the replica with its broker epoch
_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
_LIST_OFFSETS_VERSIONS = 4, 11  # with the leader's epoch
_HURRY_VERSIONS = 0, 0
_WHILE_SYNCING_MS = 20  # a fetch waits no longer: one that waits at a leader of Kafka's can't be hurried
_LONGEST_HOLD_MS = 500
_REST_OF_REQUEST_MS = 1_000  # of a request, beside the time that it may wait at the leader


class FetchOutcome(Enum):
    """The outcome of a leader's answer for a partition."""

    DONE = "fetch on"
    LATER = "fetch again after a pause"
    OUT_OF_RANGE = "the leader has no such offset: ask for its log start and end"


class FetchPosition(NamedTuple):
    """The position of a partition in a fetch: the fields of a FetchPartition, in its order."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int

    @property
    def log_end(self) -> tuple[int, int, int]:
        """Return the part compared with an answer: leader epoch, log end offset and epoch of the last record."""
        return self[:3]


class PartitionFetchState:
    """A partition led by another node, in one epoch of the leader."""

    __slots__ = ("_logged_trouble", "_pauses", "key", "lag", "leader_epoch", "log", "partition", "resumes_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.log = partition.log
        self.key = partition.log.topic_id, partition.index
        self.leader_epoch = partition.leader_epoch
        self.resumes_ms = 0  # the end of the pause
        self.lag = 0  # records that the leader had and this replica had not, by the last answer
        self._pauses = 0
        self._logged_trouble = ""  # is not logged again at every attempt

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def position(self, max_bytes: int) -> FetchPosition:
        log = self.log
        return FetchPosition(self.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset, max_bytes)

    @property
    def is_current(self) -> bool:
        """Return whether the metadata still names the same leader and epoch."""
        partition = self.partition
        return not partition.is_leader and partition.leader_epoch == self.leader_epoch

    def pause(self, now: int, longest_ms: int) -> None:
        """Pause the partition: shortly at first, then for `replica.fetch.backoff.ms`."""
        self.resumes_ms = now + min(longest_ms, _FIRST_PAUSE_MS << min(self._pauses, 16))
        self._pauses += 1

    # -- answers of the leader

    def apply(self, data: PartitionData, wall: int) -> FetchOutcome:
        """Apply the leader's answer to the log."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchOutcome.OUT_OF_RANGE
        if data.error_code:
            logger.debug("%s can't be fetched: %s", self, ErrorCode(data.error_code).name)
            return FetchOutcome.LATER
        return self._attempt(partial(self._apply, data, wall), wall)

    def _apply(self, data: PartitionData, wall: int) -> FetchOutcome:
        diverging = data.diverging_epoch
        if self.log.gap is not None:
            return self._fetch_from(max(self.log.gap, self.log.log_start_offset), wall)
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            return self._truncate_to_epoch(diverging.epoch, diverging.end_offset, wall)
        return self._append(data, wall)

    def _attempt(self, step: Callable[[], FetchOutcome], wall: int) -> FetchOutcome:
        """Return the outcome of a step on the log, or of the rest of an interrupted cut in its place.

        Never raises: other partitions are in the same answer.
        """
        try:
            if self.log.interrupted_cut is None:
                return step()
            self.log.finish_cut(wall)
            return FetchOutcome.DONE  # the log's end has moved: what is there to fetch shows in the next answer
        except DamagedLog as damage:
            self.log.keeper.damaged_log(self.log, damage)
        except CorruptBatch as damage:
            self._log_trouble(f"what its leader has sent is damaged: {damage}")
        except OSError as error:
            self._log_trouble(self.log.storage_error(error).message)
        except ApiError as error:
            self._log_trouble(error.message or error.code.name)
        except Exception:
            logger.exception("a defect while following %s", self)
        return FetchOutcome.LATER

    def _fetch_from(self, gap: int, wall: int) -> FetchOutcome:
        """Cut the log at its gap, where a power cut may have taken records, and fetch the rest again.

        The leader may still have the records. The controller has taken this replica out of sync when the broker
        registered after the crash.
        """
        logger.warning("%s is fetched again from %d on, where a crash may have taken records", self, gap)
        self.log.truncate_or_restart(gap, wall)
        self.log.forget_gap()
        return FetchOutcome.DONE

    def _log_trouble(self, trouble: str | None) -> None:
        if trouble != self._logged_trouble:
            self._logged_trouble = trouble or ""
            logger.error("%s can't be followed for now: %s", self, trouble)

    def _append(self, data: PartitionData, wall: int) -> FetchOutcome:
        log, records = self.log, data.records
        before = log.log_end_offset
        if records:
            log.append_fetched(records, wall, data.log_start_offset, self.leader_epoch)
            if log.log_end_offset == before:
                if len(records) >= HEADER_SIZE and read_header(records).partition_leader_epoch > self.leader_epoch:
                    logger.info("%s: what the leader of epoch %d has sent is newer, and left", self, self.leader_epoch)
                    return FetchOutcome.LATER
                raise CorruptBatch(f"{len(records)} bytes without a whole batch")
        self.lag = max(0, data.high_watermark - log.log_end_offset)
        self.partition.know_committed(data.high_watermark)
        log.raise_log_start(min(data.log_start_offset, log.high_watermark))
        self._pauses, self._logged_trouble = 0, ""
        return FetchOutcome.DONE

    def _truncate_to_epoch(self, epoch: int, leader_end: int, wall: int) -> FetchOutcome:
        """Truncate the log where the leader's records of `epoch` end; the rest of the log is another history."""
        log = self.log
        known, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        offset = leader_end if known == _UNKNOWN else min(own_end, leader_end)
        return self._truncate(offset, wall)

    def _truncate(self, offset: int, wall: int) -> FetchOutcome:
        log = self.log
        if offset == log.log_end_offset and log.epochs.begins_at(offset):
            log.truncate_to(offset)
            return FetchOutcome.DONE
        if not 0 <= offset < log.log_end_offset:
            return FetchOutcome.LATER
        lost = log.high_watermark - offset
        logger.log(
            logging.WARNING if lost > 0 else logging.INFO,
            "%s is cut from %d to %d, where its leader's history goes another way%s",
            self,
            log.log_end_offset,
            offset,
            f"; {lost} of these were committed" if lost > 0 else "",
        )
        log.truncate_or_restart(offset, wall)
        return FetchOutcome.DONE

    def resume_within(self, leader_start: int, leader_end: int, wall: int) -> FetchOutcome:
        """Make the log a part of the leader's log, which goes from `leader_start` to `leader_end`."""
        return self._attempt(partial(self._resume_within, leader_start, leader_end, wall), wall)

    def _resume_within(self, leader_start: int, leader_end: int, wall: int) -> FetchOutcome:
        log = self.log
        if leader_start > log.log_end_offset:
            logger.warning("%s begins anew at %d, where its leader does", self, leader_start)
            log.restart_at(leader_start, wall)
            return FetchOutcome.DONE
        return self._truncate(leader_end, wall)


class ReplicaFetcher:
    """The fetches from one leader (Kafka: ReplicaFetcherThread).

    peer: returns the channel to the leader; None while the leader's address is not known.
    """

    def __init__(self, follower: NodeReplication, leader_id: int, peer: Callable[[], Peer | None]) -> None:
        self.leader_id = leader_id
        self.due: int | None = None  # when `send_next` has something to do
        self._follower = follower
        self._peer = peer
        self._followed: dict[TopicIdPartition, PartitionFetchState] = {}
        # Sets in order of insertion, so that every run is the same.
        self._changed: dict[TopicIdPartition, None] = {}  # the session may have an old position of these
        self._paused: dict[TopicIdPartition, None] = {}
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._session: dict[TopicIdPartition, FetchPosition] = {}  # the positions in the session
        self._open_at: Peer | None = None  # the peer that has not answered the last fetch yet
        self._hurried = False
        self._resumes_ms = 0
        self._failures = 0

    # -- partitions

    def add(self, followed: PartitionFetchState) -> None:
        """Follow a partition from now on, or in another epoch of the leader."""
        self._followed[followed.key] = followed
        self._changed[followed.key] = None
        self._paused.pop(followed.key, None)
        self.wake()

    def remove(self, key: TopicIdPartition) -> None:
        """Stop following a partition: another node leads, or the partition is gone."""
        if self._followed.pop(key, None) is not None:
            self._changed[key] = None
            self._paused.pop(key, None)

    def wake(self) -> None:
        """Fetch at the end of the turn, or as soon as the open fetch is answered; the leader is asked to answer."""
        if self._open_at is None:
            self.due = max(self._follower.clock.now, self._resumes_ms)
        elif not self._hurried:
            self._hurried = True
            self._hurry_leader(self._open_at)

    def _hurry_leader(self, peer: Peer) -> None:
        """Send a second request, so that the leader answers the open fetch.

        A leader of ours answers a waiting fetch when the next request of its connection comes in. A leader of Kafka's
        answers both when the fetch would have been answered.
        """
        timeout_ms = self._follower.config.replica_socket_timeout_ms
        with contextlib.suppress(LinkError):
            peer.send(ApiVersionsRequest(), lambda reply: None, timeout_ms, versions=_HURRY_VERSIONS)

    def hurry(self) -> None:
        """Fetch without a pause: the leader has come back, or has another address."""
        self._resumes_ms = 0
        if self._open_at is None:
            self.wake()

    def synced(self, key: TopicIdPartition) -> None:
        """Tell the leader with the next fetch: the fetched records of a partition are synced."""
        if key in self._paused:
            self.wake()

    # -- requests

    def send_next(self, now: int) -> None:
        """Send the next fetch, unless a fetch is open or a pause lasts."""
        self.due = None
        if self._open_at is not None:
            return
        if now < self._resumes_ms:
            self.due = self._resumes_ms
            return
        self._resume(now)
        request = self._request(self._wait_ms(now))
        if request is not None:
            self._send(request, now)
        else:
            self.due = self._next_resume(now)

    def _resume(self, now: int) -> None:
        """Take partitions back into the session, after their pause."""
        for key in list(self._paused):
            followed = self._followed[key]
            if followed.resumes_ms <= now and not followed.log.overdue and not self._is_throttled(followed, now):
                self._paused.pop(key, None)
                self._changed[key] = None

    def _next_resume(self, now: int) -> int | None:
        """Return when the next pause is over; a wait for a sync has no such time."""
        return min((each for key in self._paused if (each := self._followed[key].resumes_ms) > now), default=None)

    def _wait_ms(self, now: int) -> int:
        """Return how long the leader may wait: until another partition resumes, or might after a sync."""
        wait_ms: int = self._follower.config.replica_fetch_wait_max_ms
        if not self._paused:
            return wait_ms
        resumes = [self._followed[key].resumes_ms - now for key in self._paused]
        return min(wait_ms, *(each if each > 0 else _WHILE_SYNCING_MS for each in resumes))

    def _request(self, wait_ms: int) -> FetchRequest | None:
        """Return the next fetch; None without partitions to follow."""
        config, follower = self._follower.config, self._follower
        if self._session_epoch == INITIAL_EPOCH:
            self._session = {}
            self._changed = {key: None for key in self._followed if key not in self._paused}
        changed, forgotten = self._session_changes(config.replica_fetch_max_bytes)
        if not self._session:
            self._session_epoch = INITIAL_EPOCH
            return None
        has_state = follower.fetch_version >= _STATE_FROM
        return FetchRequest(
            replica_id=_NO_REPLICA if has_state else follower.id,
            replica_state=ReplicaState(follower.id, follower.broker_epoch) if has_state else ReplicaState(),
            max_wait_ms=wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic("", *topic) for topic in changed.items()],
            forgotten_topics_data=[ForgottenTopic("", *topic) for topic in forgotten.items()],
        )

    def _session_changes(self, max_bytes: int) -> tuple[dict[bytes, list[FetchPartition]], dict[bytes, list[int]]]:
        """Return the changed positions, and the partitions that leave the session, by topic."""
        session, changed, forgotten = self._session, dict[bytes, list[FetchPartition]](), dict[bytes, list[int]]()
        for key in self._changed:
            followed = self._followed.get(key)
            if followed is None or key in self._paused:
                if session.pop(key, None) is not None:
                    forgotten.setdefault(key[0], []).append(key[1])
                continue
            position = followed.position(max_bytes)
            if session.get(key) != position:
                session[key] = position
                changed.setdefault(key[0], []).append(FetchPartition(key[1], *position))
        self._changed = {}
        return changed, forgotten

    def _send(self, request: FetchRequest, now: int) -> None:
        config, version = self._follower.config, self._follower.fetch_version
        peer = self._peer()
        if peer is None:
            self._fail(now, "nobody knows where it is")
            return
        timeout_ms = max(config.replica_socket_timeout_ms, request.max_wait_ms + _REST_OF_REQUEST_MS)
        try:
            peer.send(request, self._answered, timeout_ms, versions=(version, version))
        except LinkError as error:
            self._fail(now, str(error))
            return
        self._open_at, self._hurried = peer, False

    # -- answers

    def _answered(self, reply: Message | LinkError) -> None:
        now = self._follower.clock.now
        self._open_at = None
        if isinstance(reply, LinkError):
            self._fail(now, str(reply))
            return
        response = cast(FetchResponse, reply)
        if response.error_code:
            self._refused(response.error_code, now)
            return
        self._failures = 0
        self._advance_session(response.session_id)
        wall = self._follower.clock.wall
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                followed = self._followed.get(key)
                if followed is None or not followed.is_current or not self._is_as_asked(followed):
                    self._drop(key, now)
                    continue
                size = len(data.records or b"")
                outcome = followed.apply(data, wall)
                if self._followed.get(key) is followed:  # its directory has not failed meanwhile
                    self._done(followed, outcome, now)
                    self._pause_if_throttled(followed, size, data.high_watermark, now)
        self.send_next(now)

    def _is_as_asked(self, followed: PartitionFetchState) -> bool:
        """Return whether the log still ends where the fetch has asked. The start of the log does not matter."""
        asked = self._session.get(followed.key)
        return asked is not None and followed.position(asked.max_bytes).log_end == asked.log_end

    def _drop(self, key: TopicIdPartition, now: int) -> None:
        """Take the partition of a dropped answer out of the session until the request after the next.

        For the leader, the dropped high watermark and log start are known: it would send them only after a change.
        """
        followed = self._followed.get(key)
        if followed is not None:
            followed.resumes_ms = max(followed.resumes_ms, now + 1)
            self._paused[key] = None
        self._changed[key] = None

    def _done(self, followed: PartitionFetchState, outcome: FetchOutcome, now: int) -> None:
        key = followed.key
        if outcome is not FetchOutcome.DONE:
            followed.pause(now, self._follower.config.replica_fetch_backoff_ms)
        if outcome is FetchOutcome.OUT_OF_RANGE:
            # The log start first: a log with a lower end has to begin anew, other logs are truncated.
            self._ask_for_offset(followed, EARLIEST, partial(self._on_log_start, followed))
        if outcome is not FetchOutcome.DONE or followed.log.overdue:
            self._paused[key] = None
        self._changed[key] = None

    def _pause_if_throttled(self, followed: PartitionFetchState, size: int, high_watermark: int, now: int) -> None:
        """Pause a throttled partition after too many bytes, unless it has all that the leader calls committed.

        The next fetch of such a partition carries nothing, and tells the leader that the replica is in sync.
        """
        self._follower.follower_throttle.record(followed.partition, size, now)
        if followed.log.log_end_offset < high_watermark and self._is_throttled(followed, now):
            self._paused[followed.key] = None

    def _is_throttled(self, followed: PartitionFetchState, now: int) -> bool:
        """Return whether the throttle holds a partition back for now. An operator may change its limit at any time."""
        held_ms = self._follower.follower_throttle.held_ms(followed.partition, self._follower.id, now)
        if held_ms:
            followed.resumes_ms = max(followed.resumes_ms, now + min(held_ms, _LONGEST_HOLD_MS))
        return held_ms > 0

    def _advance_session(self, session_id: int) -> None:
        """Follow the leader's session. Where the leader keeps none, every request names all partitions."""
        self._session_id = session_id
        if session_id == NO_SESSION:
            self._session_epoch = INITIAL_EPOCH
        else:
            self._session_epoch = FIRST_EPOCH if self._session_epoch == MAX_EPOCH else self._session_epoch + 1

    def _refused(self, code: int, now: int) -> None:
        is_new = self._session_epoch == INITIAL_EPOCH
        self._session_epoch = INITIAL_EPOCH
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        if code in _SESSION_LOST and not is_new:
            self.send_next(now)
        else:
            self._fail(now, ErrorCode(code).name)

    def _fail(self, now: int, why: str) -> None:
        """Try again after a pause, in a new session: a fetch was not answered."""
        log = logger.info if not self._failures else logger.debug
        log("broker %d can't be fetched from: %s", self.leader_id, why)
        self._failures += 1
        self._session_epoch = INITIAL_EPOCH
        self._resumes_ms = now + self._follower.config.replica_fetch_backoff_ms
        self.due = self._resumes_ms

    # -- start and end of the leader's log

    def _ask_for_offset(self, followed: PartitionFetchState, timestamp: int, on_offset: Callable[[int], None]) -> None:
        peer, follower = self._peer(), self._follower
        if peer is None:
            return
        wanted = ListOffsetsPartition(followed.partition.index, followed.leader_epoch, timestamp)
        topic = ListOffsetsTopic(followed.partition.topic, [wanted])

        def on_reply(reply: Message | LinkError) -> None:
            is_followed = self._followed.get(followed.key) is followed and followed.is_current
            if isinstance(reply, LinkError) or not is_followed:
                return  # the next fetch, if any, is out of range again
            (found,) = cast(ListOffsetsResponse, reply).topics[0].partitions
            if not found.error_code:
                on_offset(found.offset)

        request = ListOffsetsRequest(follower.id, topics=[topic])
        try:
            peer.send(request, on_reply, follower.config.replica_socket_timeout_ms, versions=_LIST_OFFSETS_VERSIONS)
        except LinkError as error:
            logger.debug("broker %d can't be asked about %s: %s", self.leader_id, followed, error)

    def _on_log_start(self, followed: PartitionFetchState, start: int) -> None:
        if start > followed.log.log_end_offset:
            self._resume_within(followed, start, start)
        else:
            self._ask_for_offset(followed, LATEST, partial(self._resume_within, followed, start))

    def _resume_within(self, followed: PartitionFetchState, start: int, end: int) -> None:
        if followed.resume_within(start, end, self._follower.clock.wall) is FetchOutcome.DONE:
            self._changed[followed.key] = None  # a fetch of the old offset may be on its way, and answered with nothing
            followed.resumes_ms = self._follower.clock.now
            self.wake()


class _Following(NamedTuple):
    """The present fetcher of a partition."""

    fetcher: ReplicaFetcher
    followed: PartitionFetchState


class ReplicaFetcherManager:
    """The fetchers of a node (Kafka: ReplicaFetcherManager)."""

    def __init__(self, follower: NodeReplication, broker_channels: BrokerChannels) -> None:
        self._follower = follower
        self._broker_channels = broker_channels
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}  # by leader and fetcher id
        self._following: dict[tuple[str, int], _Following] = {}

    @property
    def max_lag(self) -> int:
        """The lag of the partition farthest behind its leader, in records."""
        return max((each.followed.lag for each in self._following.values()), default=0)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from the present leader, unless this node leads."""
        key, leader = (partition.topic, partition.index), partition.state.leader
        known = self._following.get(key)
        if known is not None:
            if known.followed.partition is partition and known.followed.is_current:
                return
            self.unfollow(key)
        if leader in (_NO_LEADER, self._follower.id):
            return
        followed = PartitionFetchState(partition)
        fetcher = self._fetcher_for(leader, key)
        self._following[key] = _Following(fetcher, followed)
        fetcher.add(followed)

    def unfollow(self, key: tuple[str, int]) -> None:
        """Stop fetching a partition."""
        known = self._following.pop(key, None)
        if known is not None:
            known.fetcher.remove(known.followed.key)

    def spread(self) -> None:
        """Move partitions to other fetchers after a change of `num.replica.fetchers`."""
        for key, (fetcher, followed) in list(self._following.items()):
            if self._fetcher_for(fetcher.leader_id, key) is not fetcher:
                self.unfollow(key)
                self.follow(followed.partition)

    def synced(self, key: tuple[str, int]) -> None:
        """Note that the fetched records of a partition are synced."""
        known = self._following.get(key)
        if known is not None:
            known.fetcher.synced(known.followed.key)

    def broker_changed(self, broker_id: int) -> None:
        """Fetch from a broker at once: the broker has registered, or serves again."""
        for (leader, _), fetcher in self._fetchers.items():
            if leader == broker_id:
                fetcher.hurry()

    def _fetcher_for(self, leader: int, key: tuple[str, int]) -> ReplicaFetcher:
        fetcher_id = zlib.crc32(f"{key[0]}-{key[1]}".encode()) % self._follower.config.num_replica_fetchers
        fetcher = self._fetchers.get((leader, fetcher_id))
        if fetcher is None:
            client_id = f"broker-{self._follower.id}-fetcher-{fetcher_id}"
            fetcher = ReplicaFetcher(self._follower, leader, partial(self._broker_channels.peer, leader, client_id))
            self._fetchers[leader, fetcher_id] = fetcher
        return fetcher

    # -- time

    def next_deadline(self) -> int | None:
        return min((each.due for each in self._fetchers.values() if each.due is not None), default=None)

    def on_deadline(self, now: int) -> None:
        for fetcher in list(self._fetchers.values()):
            if fetcher.due is not None and fetcher.due <= now:
                fetcher.send_next(now)
