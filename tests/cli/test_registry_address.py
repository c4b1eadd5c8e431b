"""`--schema-registry`, `--schema-registry-url` and the user of either."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka_broker.cli import registry_address as module
from pykafka_broker.cli.registry_address import USER_VARIABLE, registry_address, schemas_elsewhere
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


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:8081", "must be a URL that begins with"),
        ("http://", "must be a URL that begins with"),
        ("file:///etc/passwd", "must be a URL that begins with"),
        ("http://[::1", "must be a URL that begins with"),
        ("http://me:secret@host", "give its user with --schema-registry-user-file"),
    ],
)
def test_one_elsewhere_has_a_url(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        schemas_elsewhere(url, None, {})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--schema-registry", "0", "--control", "0"], "leave out --schema-registry-url"),
        ([], "is for what --control shows"),
    ],
)
def test_one_elsewhere_is_for_the_page_of_a_broker_without(more: list[str], says: str) -> None:
    command = [sys.executable, "-m", "pykafka_broker", "--ephemeral", "--schema-registry-url", "http://localhost"]
    ran = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert says in ran.stderr


def test_a_package_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEEDED", {"no_such_module": "its-package", "no_such_other": "another"})
    with pytest.raises(UsageError, match=r"its-package and another missing; pip install its-package another$"):
        registry_address("8081", None, {})


def test_a_broker_without_a_registry_loads_nothing_of_it() -> None:
    code = """
import sys
import pykafka_broker.cli.serve, pykafka_broker.server.serving, pykafka_broker.testing
print([name for name in sys.modules if "registry" in name.split(".")[1:2] or name in ("jsonschema", "grpc_tools")])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "pykafka_broker", "--ephemeral", "--listen", "0", "--schema-registry"]
        ran = subprocess.run([*command, at], capture_output=True, text=True, timeout=60, check=False)
        assert (ran.returncode, ran.stdout) == (1, "")
        assert f"cannot start: schema registry on {at}: " in ran.stderr
