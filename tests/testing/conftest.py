"""Runs of pytest of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from _pytest.pytester import SysModulesSnapshot


@pytest.fixture
def only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the others that happen to be installed."""
    monkeypatch.setenv("PYTEST_PLUGINS", "pykafka_broker.pytest_plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(autouse=True)
def imported_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Modules that a run in this process imports, kept for all tests: a second import would make their classes anew."""
    programs = str(tmp_path_factory.getbasetemp())

    def snapshot(preserve: Callable[[str], bool]) -> SysModulesSnapshot:
        def stays(name: str) -> bool:
            return preserve(name) or not (getattr(sys.modules[name], "__file__", None) or "").startswith(programs)

        return SysModulesSnapshot(stays)

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", snapshot)
