"""The producers that a request for a cleaning names."""

from __future__ import annotations

import pytest

from pykafka_broker.log.compaction.request import LastBatches


@pytest.mark.parametrize(("offset", "newest"), [(3, None), (4, 3), (7, 3), (8, 7), (20, 9)])
def test_batches_behind_the_cleaned_part_do_not_count(offset: int, newest: int | None) -> None:
    assert LastBatches((3, 7, 9), 0).newest_below(offset) == newest


def test_a_marker_that_has_begun_anew_leaves_no_batch() -> None:
    assert LastBatches((), 1).newest_below(20) is None
