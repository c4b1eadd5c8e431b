"""`--control` and its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.cli.control_address import TOKEN_VARIABLE, control_address
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
    assert control_address("0.0.0.0:9644", None, {TOKEN_VARIABLE: "t"}).token == "t"
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert control_address("0.0.0.0:9644", str(file), {}).token == "secret"


def test_a_token_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("\n")
    with pytest.raises(UsageError, match="the control token is empty"):
        control_address("127.0.0.1:0", str(file), {})
    with pytest.raises(UsageError, match="No such file"):
        control_address("127.0.0.1:0", str(tmp_path / "none"), {})
