"""A partition that another node leads, in one epoch of that leader.

Rule: what the leader answers is taken whole or not at all, and only if it is about the log as it is here. Where the
leader's history is another one, this log is cut back to where both agree (KIP-101, KIP-279, KIP-595). What goes wrong
with one partition is its own: it is left alone for a while, and the others go on.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.fetch_request import FetchPartition
from pykafka_broker.protocol.messages.fetch_response import PartitionData
from pykafka_broker.records.errors import CorruptBatch

logger = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 20  # after a change of leaders some nodes know of it a little earlier than others
_UNKNOWN = -1


class Taken(Enum):
    """What has become of an answer."""

    DONE = "the next one may be fetched"
    LATER = "not for a while"
    LOST = "the leader has nothing at this offset: where it begins and ends must be asked"


class Wanted(NamedTuple):
    """What is asked of the leader for one partition; a session is told what has changed of it."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int

    @property
    def log_end(self) -> tuple[int, int, int]:
        """Return what an answer goes by: the leader's epoch, where the log ends, and in which epoch."""
        return self[:3]


class FollowedPartition:
    """One partition of a fetcher."""

    __slots__ = ("_pauses", "_told", "key", "lag", "leader_epoch", "log", "partition", "resumes_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.log = partition.log
        self.key = partition.log.topic_id, partition.number
        self.leader_epoch = partition.leader_epoch
        self.resumes_ms = 0  # it is left alone until then
        self.lag = 0  # records that the leader had and this replica had not, by the last answer
        self._pauses = 0
        self._told = ""  # of the trouble that it has: the same is not told at every attempt

    def __repr__(self) -> str:
        return f"{self.partition.topic}-{self.partition.number}"

    def wanted(self, max_bytes: int) -> Wanted:
        log = self.log
        return Wanted(self.leader_epoch, log.log_end_offset, log.epochs.latest, log.log_start_offset, max_bytes)

    @property
    def is_current(self) -> bool:
        """Whether it still is what the metadata says."""
        partition = self.partition
        return not partition.is_leader and partition.leader_epoch == self.leader_epoch

    def pause(self, now: int, longest_ms: int) -> None:
        """Leave it alone: shortly at first, then for `replica.fetch.backoff.ms`."""
        self.resumes_ms = now + min(longest_ms, _FIRST_PAUSE_MS << min(self._pauses, 16))
        self._pauses += 1

    # -- what the leader says

    def take(self, data: PartitionData, wall: int) -> Taken:
        """Take over what was fetched."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Taken.LOST
        if data.error_code:
            logger.debug("%s can't be fetched: %s", self, ErrorCode(data.error_code).name)
            return Taken.LATER
        try:
            if self.log.gap is not None:
                return self._fetch_from(max(self.log.gap, self.log.log_start_offset), wall)
            if data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                return self._part(data.diverging_epoch.epoch, data.diverging_epoch.end_offset, wall)
            return self._append(data, wall)
        except CorruptBatch as damage:
            self._tell(f"what its leader has sent is damaged: {damage}")
        except OSError as error:
            self._tell(self.log.storage_error(error).message)
        except ApiError as error:
            self._tell(error.message or error.code.name)
        return Taken.LATER

    def _fetch_from(self, gap: int, wall: int) -> Taken:
        """Cut the log at its gap and fetch the rest again: a power cut may have taken records there that the leader
        still has. The controller has taken this replica out of sync when it registered after the crash.
        """
        logger.warning("%s is fetched again from %d on, where a crash may have taken records", self, gap)
        self.log.truncate_or_restart(gap, wall)
        self.log.forget_gap()
        return Taken.DONE

    def _tell(self, trouble: str | None) -> None:
        if trouble != self._told:
            self._told = trouble or ""
            logger.error("%s can't be followed for now: %s", self, trouble)

    def _append(self, data: PartitionData, wall: int) -> Taken:
        log, records = self.log, data.records
        before = log.log_end_offset
        if records:
            log.append_fetched(records, wall)
            if log.log_end_offset == before:
                raise CorruptBatch(f"{len(records)} bytes without a whole batch")
        self.lag = max(0, data.high_watermark - log.log_end_offset)
        self.partition.know_committed(data.high_watermark)
        log.raise_log_start(min(data.log_start_offset, log.high_watermark))
        self._pauses, self._told = 0, ""
        return Taken.DONE

    def _part(self, epoch: int, leader_end: int, wall: int) -> Taken:
        """The leader's records of `epoch` end there; those here that go beyond are of another history."""
        log = self.log
        known, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        offset = leader_end if known == _UNKNOWN else min(own_end, leader_end)
        return self._cut(offset, wall)

    def _cut(self, offset: int, wall: int) -> Taken:
        log = self.log
        if not 0 <= offset < log.log_end_offset:
            return Taken.LATER
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
        return Taken.DONE

    def resume_within(self, leader_start: int, leader_end: int, wall: int) -> Taken:
        """The leader's log goes from there to there: make this one a part of it."""
        log = self.log
        try:
            if leader_start > log.log_end_offset:
                logger.warning("%s begins anew at %d, where its leader does", self, leader_start)
                log.restart_at(leader_start, wall)
                return Taken.DONE
            return self._cut(leader_end, wall)
        except OSError as error:
            self._tell(log.storage_error(error).message)
            return Taken.LATER


def fetch_partition(number: int, wanted: Wanted) -> FetchPartition:
    """As a request has it."""
    epoch, offset, last_epoch, log_start, max_bytes = wanted
    return FetchPartition(number, epoch, offset, last_epoch, log_start, max_bytes)
