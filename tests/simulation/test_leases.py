"""A node whose state is kept, forked, restored and reset while clients use it."""

from __future__ import annotations

import os

import pytest

from pykafka_broker.control import state
from pykafka_broker.log import image
from tests.simulation.keeping import KEPT, Keeping
from tests.simulation.leases import run_leases
from tests.simulation.runs import KILLS

pytestmark = pytest.mark.whole

SEEDS = 3


def test_all_is_as_it_was(seed: int, keeping: Keeping, busy: bool) -> None:
    rare = run_leases(seed, KILLS, keeping=keeping, busy=busy).history.rare
    assert all(rare[each] for each in ("restored", "reset", "forked"))


def test_an_image_that_lacks_the_end_of_a_log_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = image.lay_image

    def lay_image(image: str, directory: str) -> None:
        real(image, directory)
        last = max(each for each in os.listdir(f"{directory}/t-0") if each.endswith(".log"))
        os.truncate(f"{directory}/t-0/{last}", 0)

    monkeypatch.setattr(state, "lay_image", lay_image)
    with pytest.raises(AssertionError, match=r"is lost|read as"):
        run_leases(1, (), keeping=KEPT)
