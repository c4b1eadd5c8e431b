"""Whoever may use the control API may do everything, whatever the authorizer says to clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.config.effects import STANDARD_AUTHORIZERS
from pykafka_broker.testing import KafkaBroker

HOOK = """
class Nobody:
    def allows(self, *question): return False
    def allows_some(self, *question): return False
    def rule(self, *question): return "nobody"
"""


@pytest.mark.parametrize("authorizer", [STANDARD_AUTHORIZERS[0], "nobody_may:Nobody"])
def test_the_control_api_is_not_stopped_by_acls(
    authorizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nobody_may.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    with KafkaBroker({"authorizer.class.name": authorizer}) as broker:
        broker.create_topic("t")
        broker.produce("t", ["a"])
        assert [record.value for record in broker.records("t")] == ["a"]
        broker.reset()
        assert broker.topics() == []
