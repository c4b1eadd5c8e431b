"""The rare states of a run, and how often each was reached.

Rule: a fault is found where a rare state meets another one; a soak that never reaches a state proves nothing about it.
States are counted by looking: from outside at the functions that bring them about, which are wrapped while a simulation
is entered, and by clients and `watch.py`. Nothing of the package is changed, asked for more or slowed down otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from pykafka_broker.broker.api import produce, short_produce
from pykafka_broker.broker.coordinators.group_host import GroupHost
from pykafka_broker.broker.replication.fetcher import PartitionFetchState, ReplicaFetcher
from pykafka_broker.errors import FrameError
from pykafka_broker.log.compaction import cleaner
from pykafka_broker.log.compaction.cleaner import Cleaner, LogToClean
from pykafka_broker.log.loading import FolderRecovery
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.log.moving import Move
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.header import HEADER_SIZE, iter_batches, read_header

OF_STARTS = (
    "log start raised by retention",
    "log started inside a segment",
    "log loaded that starts inside a segment",
    "follower's start above its leader's",
    "follower began anew",
    "OFFSET_OUT_OF_RANGE followed",
)
OF_TRIMS = (
    "follower began inside a batch",
    "DeleteRecords refused by a former leader",
    "records deleted by a leader alone",
    "transaction open at the log's start",
)
OF_CUTS = ("log cut", "log cut inside a batch")
OF_CLEANING = ("log cleaned", "cleaned before an abort marker")
OF_POWER = ("log went on at its start",)
OF_UNCLEAN = ("unclean election", "committed records cut")
OF_MOVES = "log cut while it was copied", "fetch answer dropped"
OF_STANDSTILL = ("minority away for long",)
OF_ONCE = ("one call failed",)
OF_GROWTH = "asked a broker for a partition unknown to it", "member was given an added partition"
OF_REWINDING = "share group told to begin at what it had accepted", "share group with a member was not rewound"
OF_ACKS = ("acks=0 refused",)
OF_LEASES = ("restored", "reset", "forked")
OF_NEARNESS = ("read from a follower",)
OF_COMMITS = "commits written together", "commits refused together"


@contextmanager
def counted(rare: Counter[str]) -> Iterator[None]:
    """Count rare states within the block."""
    with ExitStack() as wrapped:
        for owner, name, wrap in _WRAPS:
            wrapped.enter_context(patch.object(owner, name, wrap(rare, getattr(owner, name))))
        yield


def _dropped(rare: Counter[str], real: Callable[..., bool]) -> Callable[..., bool]:
    def is_as_asked(self: ReplicaFetcher, one: PartitionFetchState) -> bool:
        as_asked = real(self, one)
        rare["fetch answer dropped"] += not as_asked
        return as_asked

    return is_as_asked


def _anew(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def restart_at(log: PartitionLog, *args: Any, **named: Any) -> None:
        rare["follower began anew"] += log.topic != METADATA_TOPIC
        real(log, *args, **named)

    return restart_at


def _inside(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def append_fetched(log: PartitionLog, data: Any, *args: Any, **named: Any) -> None:
        if len(data) >= HEADER_SIZE:
            header = read_header(memoryview(data), 0)
            is_inside = header.base_offset < log.log_end_offset <= header.last_offset
            rare["follower began inside a batch"] += is_inside and log.topic != METADATA_TOPIC
        real(log, data, *args, **named)

    return append_fetched


def _cut(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def truncate_to(self: PartitionLog, offset: int) -> None:
        if offset < self.log_end_offset:
            rare["log cut"] += 1
            rare["log cut inside a batch"] += _is_inside(self, offset)
            rare["committed records cut"] += offset < self.high_watermark
        real(self, offset)

    return truncate_to


def _is_inside(log: PartitionLog, offset: int) -> bool:
    """Return whether a batch reaches from below `offset` to it."""
    if offset <= log.log_start_offset:
        return False
    read = log.read(offset - 1, 1, log.log_end_offset)
    if read is None:
        return False
    first = next(iter_batches(bytes(read.records.read())), None)
    return first is not None and first[0].base_offset < offset <= first[0].last_offset


def _marked(rare: Counter[str], real: Callable[..., Any]) -> Callable[..., Any]:
    def make_request(found: LogToClean, *args: Any, **named: Any) -> Any:
        upper = found.upper_offset
        later = [each for each in found.log.segments if each.base_offset >= upper]
        aborted = [entry for each in later for entry in each.transactions.entries if entry.first_offset < upper]
        rare["cleaned before an abort marker"] += bool(aborted)
        return real(found, *args, **named)

    return make_request


def _cleaned(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def finished(self: Cleaner, *args: Any, **named: Any) -> None:
        rare["log cleaned"] += 1
        real(self, *args, **named)

    return finished


def _over(rare: Counter[str], real: Callable[..., int]) -> Callable[..., int]:
    def start_over(self: FolderRecovery, segments: Any, end: int) -> int:
        goes_on = real(self, segments, end)
        rare["log went on at its start"] += goes_on > end
        return goes_on

    return start_over


def _unheard(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def close_on_failure(*args: Any) -> None:
        try:
            real(*args)
        except FrameError:
            rare["acks=0 refused"] += 1
            raise

    return close_on_failure


def _together(rare: Counter[str], real: Callable[..., int]) -> Callable[..., int]:
    def write(self: GroupHost, shard: int, records: Sequence[Any]) -> int:
        code = real(self, shard, records)
        if len(records) > 1:
            rare["commits refused together" if code else "commits written together"] += 1
        return code

    return write


def _copied(rare: Counter[str], real: Callable[..., None]) -> Callable[..., None]:
    def wrapped(self: Move, *args: Any) -> None:
        rare["log cut while it was copied"] += self.log.truncations != self._truncations
        real(self, *args)

    return wrapped


_WRAPS: list[tuple[Any, str, Callable[[Counter[str], Any], Any]]] = [
    (ReplicaFetcher, "_is_as_asked", _dropped),
    (PartitionLog, "restart_at", _anew),
    (PartitionLog, "append_fetched", _inside),
    (PartitionLog, "truncate_to", _cut),
    (cleaner, "make_request", _marked),
    (Cleaner, "cleaned", _cleaned),
    (FolderRecovery, "_start_over", _over),
    (produce, "close_on_failure", _unheard),
    (short_produce, "close_on_failure", _unheard),
    (Move, "advance", _copied),
    (Move, "fail", _copied),
    (GroupHost, "_write", _together),
]
