"""The number of workloads that each crash test cuts: fewer with --short, many with --slow."""

from __future__ import annotations

import pytest

TIMES_WITH_SLOW = 20
WITH_SHORT = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "crash_seed" in metafunc.fixturenames:
        count = metafunc.module.SEEDS
        if metafunc.config.getoption("--slow", default=False):
            count *= TIMES_WITH_SLOW
        elif metafunc.config.getoption("--short", default=False):
            count = min(count, WITH_SHORT)
        metafunc.parametrize("crash_seed", range(count))
