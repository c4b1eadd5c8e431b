"""Very many topic names checked at once get the same verdicts as each name alone."""

from __future__ import annotations

import random

import pytest

from pykafka_broker.cluster.topic_names import are_plain, name_problem

PLAIN = ["a", "b.c", "-", "_x", "9", "n" * 249]
WRONG = ["", ".", "..", "ö", "a b", "a\n", "\n", "a\nb", "n" * 250]


@pytest.mark.parametrize("wrong", WRONG)
def test_one_wrong_name_is_found_among_others_wherever_it_is(wrong: str) -> None:
    assert name_problem(wrong) is not None
    for place in range(len(PLAIN) + 1):
        assert not are_plain([*PLAIN[:place], wrong, *PLAIN[place:]])
    assert not are_plain([wrong])


def test_names_that_are_fine_are_plain_in_any_number() -> None:
    draw = random.Random(1)
    for count in (1, 2, 5000):
        assert are_plain([draw.choice(PLAIN) for _ in range(count)])
