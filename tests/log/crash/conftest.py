"""The number of workloads that each crash test cuts: many with --slow."""

from __future__ import annotations

import pytest

TIMES_WITH_SLOW = 50


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "crash_seed" in metafunc.fixturenames:
        count = metafunc.module.SEEDS
        if metafunc.config.getoption("--slow", default=False):
            count *= TIMES_WITH_SLOW
        metafunc.parametrize("crash_seed", range(count))
