"""`--schema-registry` and its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cli import registry_address as module
from pykafka_broker.cli.registry_address import USER_VARIABLE, registry_address
from pykafka_broker.cli.settings import UsageError


def test_an_address_has_a_host_or_is_of_this_machine() -> None:
    assert registry_address("8081", None, {}) == ("127.0.0.1", 8081, None)
    assert registry_address("localhost:0", None, {}) == ("localhost", 0, None)
    for wrong in ("", "host", "host:port", "host:70000", "http://host:1"):
        with pytest.raises(UsageError, match="it must be HOST:PORT"):
            registry_address(wrong, None, {})


def test_others_need_a_user(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs --schema-registry-user-file"):
        registry_address("0.0.0.0:8081", None, {})
    file = tmp_path / "user"
    file.write_text("me:secret\n")
    found = registry_address("0.0.0.0:8081", str(file), {})
    assert found.user == "me:secret"
    assert "secret" not in repr(found)
    assert registry_address("0.0.0.0:8081", None, {USER_VARIABLE: "you:x"}).user == "you:x"
    with pytest.raises(UsageError, match="must be NAME:PASSWORD"):
        registry_address("8081", None, {USER_VARIABLE: "secret"})


def test_a_package_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEEDED", ("no_such_module",))
    with pytest.raises(UsageError, match=r"no_such_module missing; pip install 'pykafka-broker\[schema-registry\]'"):
        registry_address("8081", None, {})
