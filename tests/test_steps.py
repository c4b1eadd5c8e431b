"""Long work in steps."""

from __future__ import annotations

import gc
import random

from pykafka_broker.steps import ITEMS_A_STEP, Pace, at_once, counted, in_order


def test_few_items_never_yield() -> None:
    pace = Pace()
    assert not any(pace.due() for _ in range(ITEMS_A_STEP - 1))
    assert [*counted("abca")] == []
    assert [*in_order("bca")] == []


def test_it_is_time_to_yield_after_so_many_items_again_and_again() -> None:
    pace = Pace()
    assert [number for number in range(3 * ITEMS_A_STEP) if pace.due()] == [
        ITEMS_A_STEP - 1,
        2 * ITEMS_A_STEP - 1,
        3 * ITEMS_A_STEP - 1,
    ]
    assert pace.due(2 * ITEMS_A_STEP)


def test_counting_keeps_the_order_in_which_things_came() -> None:
    assert list(at_once(counted("banana")).items()) == [("b", 1), ("a", 3), ("n", 2)]
    steps = list(counted(range(10 * ITEMS_A_STEP)))
    assert len(steps) == 10


def test_very_many_are_sorted_in_steps() -> None:
    names = [f"t{number}" for number in range(20_000)]
    random.Random(1).shuffle(names)
    assert list(at_once(in_order(names))) == sorted(names)
    assert len([*in_order(names)]) == 5


def test_the_garbage_collector_does_not_look_at_names_that_were_sorted() -> None:
    """Half a million of them took it a twentieth of a second each time."""
    ordered = at_once(in_order(f"only-here-{number}" for number in range(8000)))
    gc.collect()
    kinds = (list, tuple, set)
    looked_at = [one for one in gc.get_objects() if type(one) in kinds and len(one) > 1000]
    assert not [one for one in looked_at if "only-here-7" in one]
    assert next(ordered) == "only-here-0"
