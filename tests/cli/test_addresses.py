"""`--control` and its token."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka_broker.cli import addresses
from pykafka_broker.cli.addresses import (
    TOKEN_VARIABLE,
    USER_VARIABLE,
    control_address,
    registry_address,
    schemas_elsewhere,
)
from pykafka_broker.cli.settings import UsageError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:9644", ("localhost", 9644)),
        ("[::1]:9644", ("::1", 9644)),
        ("9644", ("127.0.0.1", 9644)),
        (":9644", ("127.0.0.1", 9644)),
    ],
)
def test_this_machine_needs_no_token(text: str, address: tuple[str, int]) -> None:
    assert control_address(text, None, {}) == (*address, None)


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1:", "127.0.0.1:70000", "http://127.0.0.1:1", "a:\u0663"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be HOST:PORT"):
        control_address(text, None, {})


def test_any_other_address_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="others than this machine can reach it"):
        control_address("0.0.0.0:9644", None, {})
    assert control_address("0.0.0.0:9644", None, {TOKEN_VARIABLE: "t"}).secret == "t"
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert control_address("0.0.0.0:9644", str(file), {}).secret == "secret"
    file.write_text("secret\r\n", encoding="utf-8-sig")  # as editors of Windows write it
    assert control_address("0.0.0.0:9644", str(file), {}).secret == "secret"


def test_a_token_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("\n")
    with pytest.raises(UsageError, match="the control token is empty"):
        control_address("127.0.0.1:0", str(file), {})
    with pytest.raises(UsageError, match="No such file"):
        control_address("127.0.0.1:0", str(tmp_path / "none"), {})
    for unsendable in ("one\ntwo", "t\u20ack", "t\xf6k", " t"):
        with pytest.raises(UsageError, match="the control token must be one line of ASCII"):
            control_address("127.0.0.1:0", None, {TOKEN_VARIABLE: unsendable})
    assert control_address("127.0.0.1:0", None, {TOKEN_VARIABLE: "a b~!"}).secret == "a b~!"


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
    assert found.secret == "me:secret"
    assert "secret" not in repr(found)
    assert registry_address("0.0.0.0:8081", None, {USER_VARIABLE: "you:x"}).secret == "you:x"
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
    ("options", "says"),
    [
        ("--schema-registry-url http://localhost --schema-registry 0 --control 0", "leave out --schema-registry-url"),
        ("--schema-registry-url http://localhost", "is for the records that --control shows: add --control"),
        ("--schema-registry-user-file no/file", "is for a schema registry: add --schema-registry or its URL"),
        ("--control-token-file no/file", "is for clients of the control API: add --control"),
        ("--control-nodes 2=localhost:1", "is for the page that --control serves: add --control"),
        ("--history no/file", "is for the checks of the control API: add --control"),
    ],
)
def test_an_option_beside_one_that_is_missing_or_too_much_is_refused(options: str, says: str) -> None:
    command = [sys.executable, "-m", "pykafka_broker", "--ephemeral", *options.split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert ran.stderr.endswith(f"{says}\n")


def test_a_package_that_is_missing_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_NEEDED", {"no_such_module": "its-package", "no_such_other": "another"})
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
