"""A follower of one leader: what it asks and what it does with the answers.

Rule: one fetch at a time, in a session (KIP-227): the leader is told what has changed since the last one, and what is
not to be fetched for now is taken out of the session. An answer counts only for a partition whose log still ends where
it was asked for. A partition whose answer was dropped leaves the session for one request: the leader would not repeat
what it has told. A session that the leader has lost, and a connection that has broken, begin anew. A partition that
comes up while a fetch waits at the leader does not wait with it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from pykafka_broker.broker.replication.followed import FollowedPartition, Taken, Wanted, fetch_partition
from pykafka_broker.broker.replication.throttles import Throttle
from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.peers import LinkError, Peer
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from pykafka_broker.protocol.messages.fetch_response import FetchResponse
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsResponse
from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

Key = tuple[bytes, int]  # topic id, partition
_SESSION_LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
_NO_SESSION = 0
_NEW_SESSION = 0  # its epoch
_MAX_EPOCH = 0x7FFFFFFF
_LIST_OFFSETS_VERSIONS = 4, 11  # with the leader's epoch
_HURRY_VERSIONS = 0, 0
_WHILE_SYNCING_MS = 20  # a fetch waits no longer: one that waits at a leader of Kafka's can't be hurried
_LONGEST_HOLD_MS = 500
_REST_OF_REQUEST_MS = 1_000  # beside what it may wait at the leader


class Follower(Protocol):
    """The node that follows."""

    id: int
    clock: Clock
    follower_throttle: Throttle

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def fetch_version(self) -> int:
        """The version of Fetch that the metadata's version goes with."""


class Fetcher:
    """Follows one leader in some of its partitions. `peer` finds the line to it, None if nobody knows where it is."""

    def __init__(self, follower: Follower, leader_id: int, peer: Callable[[], Peer | None]) -> None:
        self.leader_id = leader_id
        self.due: int | None = None  # when `go_on` has something to do
        self._follower = follower
        self._peer = peer
        self._followed: dict[Key, FollowedPartition] = {}
        # Both are in their order, for a run to be like another one.
        self._changed: dict[Key, None] = {}  # what of them the session may not know yet
        self._paused: dict[Key, None] = {}
        self._session_id, self._session_epoch = _NO_SESSION, _NEW_SESSION
        self._told: dict[Key, Wanted] = {}  # what the session knows
        self._waits_at: Peer | None = None  # where a fetch is, or its answer on its way
        self._hurried = False
        self._resumes_ms = 0
        self._failures = 0

    def __len__(self) -> int:
        return len(self._followed)

    # -- what is followed

    def add(self, followed: FollowedPartition) -> None:
        """From now on, or in another epoch of the leader."""
        self._followed[followed.key] = followed
        self._changed[followed.key] = None
        self._paused.pop(followed.key, None)
        self.wake()

    def remove(self, key: Key) -> None:
        """It has another leader, or is gone."""
        if self._followed.pop(key, None) is not None:
            self._changed[key] = None
            self._paused.pop(key, None)

    def wake(self) -> None:
        """Go on as soon as this turn is over, or at once when the leader has answered; it is asked to."""
        if self._waits_at is None:
            self.due = max(self._follower.clock.now, self._resumes_ms)
        elif not self._hurried:
            self._hurried = True
            self._hurry_leader(self._waits_at)

    def _hurry_leader(self, peer: Peer) -> None:
        """A leader of ours answers a fetch that waits when the next request of its connection is there. One of Kafka's
        answers both when it would have answered the first.
        """
        timeout_ms = self._follower.config.replica_socket_timeout_ms
        with contextlib.suppress(LinkError):
            peer.send(ApiVersionsRequest(), lambda reply: None, timeout_ms, versions=_HURRY_VERSIONS)

    def hurry(self) -> None:
        """The leader has come back, or is somewhere else."""
        self._resumes_ms = 0
        if self._waits_at is None:
            self.wake()

    def synced(self, key: Key) -> None:
        """What was fetched of it is there for good now: the leader may know."""
        if key in self._paused:
            self.wake()

    # -- asking

    def go_on(self, now: int) -> None:
        """Ask for more, unless an answer is on its way or it is too early."""
        self.due = None
        if self._waits_at is not None:
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
        """Take up those again that have been left alone for long enough."""
        for key in list(self._paused):
            followed = self._followed[key]
            if followed.resumes_ms <= now and not followed.log.overdue and not self._is_held(followed, now):
                self._paused.pop(key, None)
                self._changed[key] = None

    def _next_resume(self, now: int) -> int | None:
        """When the next one is to be taken up again; those that wait for a sync are waited for in another way."""
        return min((each for key in self._paused if (each := self._followed[key].resumes_ms) > now), default=None)

    def _wait_ms(self, now: int) -> int:
        """How long the leader may wait with its answer: until another partition is to be taken up again, or might be
        since its records are synced.
        """
        wait_ms: int = self._follower.config.replica_fetch_wait_max_ms
        if not self._paused:
            return wait_ms
        resumes = [self._followed[key].resumes_ms - now for key in self._paused]
        return min(wait_ms, *(each if each > 0 else _WHILE_SYNCING_MS for each in resumes))

    def _request(self, wait_ms: int) -> FetchRequest | None:
        """What is to be asked now; None if there is nothing to follow."""
        config, follower = self._follower.config, self._follower
        if self._session_epoch == _NEW_SESSION:
            self._told = {}
            self._changed = {key: None for key in self._followed if key not in self._paused}
        news, forgotten = self._news(config.replica_fetch_max_bytes)
        if not self._told:
            self._session_epoch = _NEW_SESSION
            return None
        return FetchRequest(
            replica_state=ReplicaState(follower.id, follower.broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[
                FetchTopic(topic_id=id_, partitions=[fetch_partition(*one) for one in some])
                for id_, some in news.items()
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=id_, partitions=some) for id_, some in forgotten.items()],
        )

    def _news(self, max_bytes: int) -> tuple[dict[bytes, list[tuple[int, Wanted]]], dict[bytes, list[int]]]:
        """What the session has to be told, by topic."""
        told, news, forgotten = self._told, dict[bytes, list[tuple[int, Wanted]]](), dict[bytes, list[int]]()
        for key in self._changed:
            followed = self._followed.get(key)
            if followed is None or key in self._paused:
                if told.pop(key, None) is not None:
                    forgotten.setdefault(key[0], []).append(key[1])
                continue
            wanted = followed.wanted(max_bytes)
            if told.get(key) != wanted:
                told[key] = wanted
                news.setdefault(key[0], []).append((key[1], wanted))
        self._changed = {}
        return news, forgotten

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
        self._waits_at, self._hurried = peer, False

    # -- answers

    def _answered(self, reply: Message | LinkError) -> None:
        now = self._follower.clock.now
        self._waits_at = None
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
                taken = followed.take(data, wall)
                if self._followed.get(key) is followed:  # not if its directory has failed at that
                    self._done(followed, taken, now)
                    self._hold_back(followed, size, now)
        self.go_on(now)

    def _is_as_asked(self, followed: FollowedPartition) -> bool:
        """Return whether the log still ends where it did. Where it starts does not matter to an answer."""
        told = self._told.get(followed.key)
        return told is not None and followed.wanted(told.max_bytes).log_end == told.log_end

    def _drop(self, key: Key, now: int) -> None:
        """Take the partition of a dropped answer out of the session until the request after the next one. The leader
        believes that its high watermark and log start are known, and would tell them only once they move again.
        """
        followed = self._followed.get(key)
        if followed is not None:
            followed.resumes_ms = max(followed.resumes_ms, now + 1)
            self._paused[key] = None
        self._changed[key] = None

    def _done(self, followed: FollowedPartition, taken: Taken, now: int) -> None:
        key = followed.key
        if taken is not Taken.DONE:
            followed.pause(now, self._follower.config.replica_fetch_backoff_ms)
        if taken is Taken.LOST:
            self._ask_for_ends(followed)
        if taken is not Taken.DONE or followed.log.overdue:
            self._paused[key] = None
        self._changed[key] = None

    def _hold_back(self, followed: FollowedPartition, size: int, now: int) -> None:
        """One that is to catch up slowly is left alone when it has had enough."""
        self._follower.follower_throttle.record(followed.partition, size, now)
        if self._is_held(followed, now):
            self._paused[followed.key] = None

    def _is_held(self, followed: FollowedPartition, now: int) -> bool:
        """Return whether the throttle holds a partition back. The throttle is asked again soon: an operator may lift or
        take away the limit meanwhile.
        """
        held_ms = self._follower.follower_throttle.held_ms(followed.partition, self._follower.id, now)
        if held_ms:
            followed.resumes_ms = max(followed.resumes_ms, now + min(held_ms, _LONGEST_HOLD_MS))
        return held_ms > 0

    def _advance_session(self, session_id: int) -> None:
        """What the leader made of it. Where it keeps none, every request names all."""
        self._session_id = session_id
        if session_id == _NO_SESSION:
            self._session_epoch = _NEW_SESSION
        else:
            self._session_epoch = 1 if self._session_epoch == _MAX_EPOCH else self._session_epoch + 1

    def _refused(self, code: int, now: int) -> None:
        is_new = self._session_epoch == _NEW_SESSION
        self._session_epoch = _NEW_SESSION
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = _NO_SESSION
        if code in _SESSION_LOST and not is_new:
            self.go_on(now)
        else:
            self._fail(now, ErrorCode(code).name)

    def _fail(self, now: int, why: str) -> None:
        """There was no answer: try it again after a while, in a new session."""
        log = logger.info if not self._failures else logger.debug
        log("broker %d can't be fetched from: %s", self.leader_id, why)
        self._failures += 1
        self._session_epoch = _NEW_SESSION
        self._resumes_ms = now + self._follower.config.replica_fetch_backoff_ms
        self.due = self._resumes_ms

    # -- where the leader's log begins and ends

    def _ask_for_ends(self, followed: FollowedPartition) -> None:
        """First for its start: a log that ends below it has to begin anew, and one that ends in it is cut."""
        self._ask_for_offset(followed, EARLIEST, partial(self._told_start, followed))

    def _ask_for_offset(self, followed: FollowedPartition, timestamp: int, on_offset: Callable[[int], None]) -> None:
        peer, follower = self._peer(), self._follower
        if peer is None:
            return
        wanted = ListOffsetsPartition(followed.partition.number, followed.leader_epoch, timestamp)
        topic = ListOffsetsTopic(followed.partition.topic, [wanted])

        def on_reply(reply: Message | LinkError) -> None:
            if isinstance(reply, LinkError) or not followed.is_current:
                return  # the next fetch finds it again
            (found,) = cast(ListOffsetsResponse, reply).topics[0].partitions
            if not found.error_code:
                on_offset(found.offset)

        request = ListOffsetsRequest(follower.id, topics=[topic])
        try:
            peer.send(request, on_reply, follower.config.replica_socket_timeout_ms, versions=_LIST_OFFSETS_VERSIONS)
        except LinkError as error:
            logger.debug("broker %d can't be asked about %s: %s", self.leader_id, followed, error)

    def _told_start(self, followed: FollowedPartition, start: int) -> None:
        if start > followed.log.log_end_offset:
            self._resume_within(followed, start, start)
        else:
            self._ask_for_offset(followed, LATEST, partial(self._resume_within, followed, start))

    def _resume_within(self, followed: FollowedPartition, start: int, end: int) -> None:
        if followed.resume_within(start, end, self._follower.clock.wall) is Taken.DONE:
            self._changed[followed.key] = None  # a fetch of the old offset may be on its way, and answered with nothing
            followed.resumes_ms = self._follower.clock.now
            self.wake()
