"""Machines for the tests of groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.coordinators.machine import Machine


@pytest.fixture(scope="session")
def new_machine() -> Callable[..., Machine]:
    return Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()
