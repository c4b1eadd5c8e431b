"""The expected results of the jobs, in plain Python. Rule: nothing here is shared with the jobs but the settings; the
records are those of another client, and Spark is only asked which offsets a batch ended at.
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
    """Return `10 minutes` as seconds."""
    match = re.fullmatch(r"(\d+) (\w+?)s?", interval)
    if match is None:
        raise ValueError(interval)
    return int(match[1]) * UNITS[match[2]]


def event_of(record: Any, settings: Settings) -> dict[str, Any] | None:
    """Return the event of a record, or None if the record is none."""
    try:
        event = json.loads((record.value() or b"").decode())
        json.dumps(event, ensure_ascii=False).encode()  # halves of a pair are no text
        event["time"] = time_of(event[settings.time_column])
        written = EPOCH + timedelta(milliseconds=record.timestamp()[1])
        ahead, behind = (timedelta(seconds=seconds(limit)) for limit in (settings.max_ahead, settings.max_behind))
        is_event = event[settings.id_column] is not None and written - behind <= event["time"] <= written + ahead
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return event if is_event else None


def time_of(value: Any) -> datetime:
    """Return a time that is text, or whole seconds since 1970."""
    return EPOCH + timedelta(seconds=value) if isinstance(value, int) else datetime.fromisoformat(value)


def by_batch(records: Iterable[Any], batches: Iterable[Mapping[str, Any]]) -> Iterable[list[Any]]:
    """Yield the records of each batch, in the order that decides which of two with one id counts."""
    by_place = {(record.partition(), record.offset()): record for record in records}
    done: dict[int, int] = defaultdict(int)
    for batch in batches:
        found = []
        for partitions in batch["end_offsets"].values():
            for name, end in partitions.items():
                partition = int(name)
                places = ((partition, offset) for offset in range(done[partition], end))
                found += [by_place[place] for place in places if place in by_place]
                done[partition] = end
        yield sorted(found, key=lambda record: (record.timestamp()[1], record.partition(), record.offset()))


def expected(records: Iterable[Any], batches: Iterable[Mapping[str, Any]], settings: Settings) -> Expected:
    """Compute the results for records of which no two with one id are further apart than the watermark."""
    result, newest = Expected(), EPOCH
    for batch in by_batch(records, batches):
        bound = newest - timedelta(seconds=seconds(settings.watermark))
        for record in batch:
            event = event_of(record, settings)
            if event is None:
                result.rejected.add((record.partition(), record.offset()))
            elif event[settings.id_column] in result.accepted:
                result.duplicates += 1
            else:
                result.accepted[event[settings.id_column]] = event
                result.late += event["time"] < bound
                newest = max(newest, event["time"])
    return result


def sessions(accepted: Iterable[Mapping[str, Any]], settings: Settings) -> list[tuple[str, datetime, datetime, int]]:
    """Return key, first and last time, and number of events of every session, in order."""
    gap = timedelta(seconds=seconds(settings.gap))
    times: dict[str, list[datetime]] = defaultdict(list)
    for event in accepted:
        times[event[settings.key_column]].append(event["time"])
    found = []
    for key, of_key in times.items():
        first, last, count = EPOCH, EPOCH, 0
        for time in sorted(of_key):
            if count and time - last > gap:
                found.append((key, first, last, count))
                count = 0
            first, last, count = (first if count else time), time, count + 1
        found.append((key, first, last, count))
    return sorted(found)


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
