"""The time from which on a share group reads: `share.auto.offset.reset` with a duration, as in "by_duration:P1DT2H"."""

from __future__ import annotations

import re

BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


def reset_time(reset: str, now: int) -> int:
    """Return the time from which on a group wants records.

    The duration is ISO 8601 as Java's Duration reads it: months and years have no fixed length and are refused.
    """
    match = _DURATION.fullmatch(reset.removeprefix(BY_DURATION))
    if match is None:
        return now
    return now - int(sum(float(match[unit]) * ms for unit, ms in _MS.items() if match[unit]))
