"""Runs of pytest of their own."""

from __future__ import annotations

import pytest


@pytest.fixture
def only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the others that happen to be installed."""
    monkeypatch.setenv("PYTEST_PLUGINS", "pykafka_broker.pytest_plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
