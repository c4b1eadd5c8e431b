"""What the jobs should find, computed in plain Python. Rule: nothing here is shared with the jobs but the settings; it
reads the topic with another client and takes only the watermarks from what Spark reports of its batches.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pipeline.settings import Settings

UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Expected:
    accepted: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id
    rejected: set[tuple[int, int]] = field(default_factory=set)  # partition and offset
    late: int = 0
    duplicates: int = 0


def seconds(interval: str) -> int:
    """`10 minutes` as seconds."""
    match = re.fullmatch(r"(\d+) (\w+?)s?", interval)
    if match is None:
        raise ValueError(interval)
    return int(match[1]) * UNITS[match[2]]


def event_of(value: bytes | None, settings: Settings) -> dict[str, Any] | None:
    """The event, or None if the record is none."""
    try:
        event = json.loads(value or b"")
        event["time"] = datetime.fromisoformat(event[settings.time_column])
        return event if event[settings.id_column] is not None else None
    except (ValueError, KeyError, TypeError):
        return None


def in_order_of_batches(records: Iterable[Any], batches: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Any, datetime]]:
    """Records of the topic with the watermark that they are held against, which is that of the batch before theirs."""
    by_place = {(record.partition(), record.offset()): record for record in records}
    done: dict[int, int] = defaultdict(int)
    watermark = following = EPOCH
    for batch in batches:
        watermark, following = following, datetime.fromisoformat(batch["watermark"] or EPOCH.isoformat())
        for partitions in batch["end_offsets"].values():
            for name, end in partitions.items():
                partition = int(name)
                for offset in range(done[partition], end):
                    if (partition, offset) in by_place:
                        yield by_place[partition, offset], watermark
                done[partition] = end


def expected(records: Iterable[Any], batches: Iterable[Mapping[str, Any]], settings: Settings) -> Expected:
    result = Expected()
    for record, watermark in in_order_of_batches(records, batches):
        event = event_of(record.value(), settings)
        if event is None:
            result.rejected.add((record.partition(), record.offset()))
        elif event["time"] <= watermark:
            result.late += 1
        elif event[settings.id_column] in result.accepted:
            result.duplicates += 1
        else:
            result.accepted[event[settings.id_column]] = event
    return result


def windows(accepted: Iterable[Mapping[str, Any]], settings: Settings) -> dict[tuple[str, str], tuple[int, float]]:
    """Count and sum by window start and group."""
    span = timedelta(seconds=seconds(settings.window))
    counts: Counter[tuple[str, str]] = Counter()
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for event in accepted:
        start = event["time"] - (event["time"] - EPOCH) % span
        key = (start.strftime("%Y-%m-%dT%H:%M:%SZ"), event.get(settings.group_column) or "")
        counts[key] += 1
        sums[key] += Decimal(str(event.get(settings.value_column) or 0))
    return {key: (counts[key], float(sums[key])) for key in counts}
