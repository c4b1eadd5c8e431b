"""Retention of the records of a run's topic, and its consequences for the checks.

Rule: `KEPT` is the plain form: no record is ever deleted, logs have one segment, and no periodic task
runs within a run. Every other form has segments of a few batches, and checks, cleans and writes checkpoints several
times a second, so that logs begin, end and are asked for everywhere. When the trouble of a run is over, its topic
keeps what there is then (`SETTLED`), so that all can be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Configs = dict[str, str]

SEGMENT_BYTES = 2_000
_OFTEN: Configs = {
    "log.retention.check.interval.ms": "300",
    "log.flush.offset.checkpoint.interval.ms": "600",
    "log.flush.start.offset.checkpoint.interval.ms": "600",
    "replica.high.watermark.checkpoint.interval.ms": "600",
    "log.segment.delete.delay.ms": "500",
}
_CLEANING: Configs = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "150",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.roll.ms": "400",  # of internal topics, whose segments can't be that small
}
SETTLED: Configs = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The topic's configs when a run is over: nothing goes any more."""


@dataclass(frozen=True)
class Keeping:
    """A form of a topic. retention_ms, retention_bytes: None without such a limit. keyed: the topic is compacted.
    trimmed: clients call DeleteRecords. most_records: the largest batch. lossy: the topic prefers being led to losing
    nothing (unclean elections, min.insync.replicas 1), so what clients were told does not count.
    """

    name: str
    retention_ms: int | None = None
    retention_bytes: int | None = None
    keyed: bool = False
    trimmed: bool = False
    lossy: bool = False
    most_records: int = 40
    plain: bool = False
    segment_bytes: int = SEGMENT_BYTES
    topic: Configs = field(init=False)
    broker: Configs = field(init=False)

    def __post_init__(self) -> None:
        topic: Configs = {} if self.plain else {"internal.segment.bytes": str(self.segment_bytes)}
        if self.retention_ms is not None:
            topic["retention.ms"] = str(self.retention_ms)
        if self.retention_bytes is not None:
            topic["retention.bytes"] = str(self.retention_bytes)
        if self.keyed:
            topic["cleanup.policy"] = "compact,delete" if self.deletes else "compact"
        if self.lossy:
            topic |= {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        broker = {} if self.plain else {**_OFTEN, **(_CLEANING if self.keyed else {})}
        object.__setattr__(self, "topic", topic)
        object.__setattr__(self, "broker", broker)

    @property
    def deletes(self) -> bool:
        """Return whether the log of a partition may begin above 0."""
        return self.trimmed or self.retains

    @property
    def retains(self) -> bool:
        """Return whether retention deletes records. Each replica does so in its own time: a leader's start outlives the
        leader only where all followers have heard of it.
        """
        return self.retention_ms is not None or self.retention_bytes is not None


KEPT = Keeping("kept", most_records=3, plain=True)
BY_TIME = Keeping("by time", retention_ms=1_500)
BY_SIZE = Keeping("by size", retention_bytes=6_000)
TRIMMED = Keeping("trimmed", trimmed=True)
COMPACTED = Keeping("compacted", keyed=True, most_records=8)
COMPACTED_TRIMMED = Keeping("compacted, trimmed", keyed=True, trimmed=True, most_records=12)
TRIMMED_BY_SIZE = Keeping("trimmed, by size", trimmed=True, retention_bytes=12_000, most_records=12)
TRIMMED_WIDE = Keeping("trimmed, one segment", trimmed=True, most_records=12, segment_bytes=1 << 20)
UNCLEAN = Keeping("unclean", lossy=True, most_records=12)
UNCLEAN_TRIMMED = Keeping("unclean, trimmed", lossy=True, trimmed=True)

FORMS = (KEPT, BY_TIME, TRIMMED, BY_SIZE, COMPACTED, TRIMMED_BY_SIZE, COMPACTED_TRIMMED, TRIMMED_WIDE)
"""Forms in which clients can rely on what they are told."""


def form_of(seed: int) -> Keeping:
    """Return the form of a run: seeds take turns."""
    return FORMS[seed % len(FORMS)]


def is_busy(seed: int) -> bool:
    """Return whether the nodes of a run serve several connections in one turn: every third seed, in each form."""
    return seed % 3 == 2
