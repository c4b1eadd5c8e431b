"""Long work that yields after a number of items."""

from __future__ import annotations

from pykafka_broker.steps import ITEMS_A_STEP, Pace


def test_few_items_never_yield() -> None:
    pace = Pace()
    assert not any(pace.due() for _ in range(ITEMS_A_STEP - 1))


def test_it_is_time_to_yield_after_so_many_items_again_and_again() -> None:
    pace = Pace()
    assert [number for number in range(3 * ITEMS_A_STEP) if pace.due()] == [
        ITEMS_A_STEP - 1,
        2 * ITEMS_A_STEP - 1,
        3 * ITEMS_A_STEP - 1,
    ]
    assert pace.due(2 * ITEMS_A_STEP)
