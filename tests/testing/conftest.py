"""Runs of pytest of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from _pytest.pytester import SysModulesSnapshot


@pytest.fixture
def only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load none of the other pytest plugins that happen to be installed."""
    monkeypatch.setenv("PYTEST_PLUGINS", "pykafka_broker.pytest_plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(autouse=True)
def imported_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep modules that a run in this process imports: a second import would create their classes again."""
    programs = str(tmp_path_factory.getbasetemp())

    def snapshot(preserve: Callable[[str], bool]) -> SysModulesSnapshot:
        def stays(name: str) -> bool:
            return preserve(name) or not (getattr(sys.modules[name], "__file__", None) or "").startswith(programs)

        return SysModulesSnapshot(stays)

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", snapshot)
