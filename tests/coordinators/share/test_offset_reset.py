"""Where a share group begins that has read nothing yet, by duration."""

from __future__ import annotations

import pytest

from pykafka_broker.coordinators.share.offset_reset import reset_time

NOW = 1_700_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("duration", "ago_ms"),
    [
        ("P1D", 24 * HOUR),
        ("PT2H", 2 * HOUR),
        ("P1DT2H3M4S", 26 * HOUR + 184_000),
        ("PT0.25S", 250),
        ("pt1m", 60_000),
        ("PT0S", 0),
    ],
)
def test_the_duration_is_counted_from_now(duration: str, ago_ms: int) -> None:
    assert reset_time(f"by_duration:{duration}", NOW) == NOW - ago_ms


@pytest.mark.parametrize("text", ["by_duration:P1M2D", "by_duration:P1Y", "by_duration:tomorrow", "latest"])
def test_what_is_no_duration_of_a_fixed_length_is_now(text: str) -> None:
    assert reset_time(text, NOW) == NOW
