"""The number of runs: 400 times as many with --slow. `soak.py` runs other seeds."""

from __future__ import annotations

import pytest

from tests.simulation.keeping import Keeping, form_of, is_busy

TIMES_WITH_SLOW = 400


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and hasattr(metafunc.module, "SEEDS"):
        count = metafunc.module.SEEDS
        if metafunc.config.getoption("--slow", default=False):
            count *= TIMES_WITH_SLOW
        metafunc.parametrize("seed", range(count))


@pytest.fixture
def keeping(seed: int) -> Keeping:
    """Return the form in which a run keeps its records: the seeds take turns, as in the soak."""
    return form_of(seed)


@pytest.fixture
def busy(seed: int) -> bool:
    """Return whether the nodes of a run serve several connections in one turn, as in the soak."""
    return is_busy(seed)
