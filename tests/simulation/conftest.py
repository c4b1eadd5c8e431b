"""How many runs there are: some every time, very many with --slow. `soak.py` runs any others."""

from __future__ import annotations

import pytest

TIMES_WITH_SLOW = 50


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and hasattr(metafunc.module, "SEEDS"):
        count = metafunc.module.SEEDS
        if metafunc.config.getoption("--slow", default=False):
            count *= TIMES_WITH_SLOW
        metafunc.parametrize("seed", range(count))
