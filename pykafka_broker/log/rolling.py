"""When a log begins a new segment.

Rule: by size, by the age of its records, or because an index has no room or an offset is too far away for it (Kafka
docs, `segment.bytes`, `segment.ms`, `segment.index.bytes`).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


def must_roll(log: PartitionLog, segment: LogSegment, size: int, timestamp: int, last_offset: int, wall: int) -> bool:
    """Whether a batch of that size, greatest timestamp and last offset needs a new segment."""
    config = log.config
    filled = segment.size
    if filled > config.segment_bytes - size:
        if size > config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {log.topic}-{log.partition}, "
                f"which exceeds the maximum configured segment size of {config.segment_bytes}.",
            )
        return True
    if segment.index_full or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    if not filled:
        return False
    first = segment.first_timestamp
    # KIP-33: age is counted in record time where there is one
    age_ms = timestamp - first if first >= 0 else wall - segment.created_ms
    limit_ms = config.segment_ms
    if config.max_compaction_lag_ms < limit_ms and "compact" in config.cleanup_policy:
        # KIP-354: or the cleaner would never get to see the records
        limit_ms = max(1, config.max_compaction_lag_ms)
    if config.segment_jitter_ms:
        limit_ms -= _jitter_ms(config, segment)
    return age_ms > limit_ms


def _jitter_ms(config: TopicConfig, segment: LogSegment) -> int:
    """Spreads the rolls of many partitions; the same for a segment every time it is asked."""
    limit = min(config.segment_jitter_ms, config.segment_ms)
    return zlib.crc32(segment.log.path.encode()) % limit if limit > 0 else 0
