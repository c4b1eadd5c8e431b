"""Classes that a configuration names are found, made and told the settings; what is wrong with one is one line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, close_hook, is_python_class, load_hook, name_of

KEY = "create.topic.policy.class.name"
MODULE = """
class Kind:
    told = None
    closed = False
    def configure(self, configs):
        self.told = dict(configs)
    def validate(self, wish):
        if wish == "answer":
            raise LookupError("no")
        if wish == "defect":
            raise ZeroDivisionError("of mine")
        return wish.upper()
    def close(self):
        self.closed = True
    class Inner:
        def validate(self, wish): ...
class Bare:
    def validate(self, wish): ...
class Without: ...
class Broken(Bare):
    def __init__(self):
        raise OSError("no licence")
class Unclosable(Bare):
    def close(self):
        raise OSError("stuck")
thing = 3
"""


class Wanted(Protocol):
    def validate(self, wish: str) -> str: ...


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "hooks_of_a_test.py").write_text(MODULE)
    (tmp_path / "module_that_fails.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("hooks_of_a_test", None)


def load(text: str, configs: Mapping[str, str] = {}) -> object:
    return load_hook(KEY, text, Wanted, configs)


def test_a_python_class_has_a_colon_and_a_java_class_has_none() -> None:
    assert is_python_class("policies:Strict")
    assert is_python_class("our.policies:Strict.Inner")
    for text in (
        "org.example.Strict",
        "policies:",
        ":Strict",
        "our policies:Strict",
        "a:b:c",
        "3a:B",
        "a..b:C",
        "a:B\n",
    ):
        assert not is_python_class(text), text


def test_a_class_is_found_in_the_working_directory_and_told_the_settings() -> None:
    hook = load("hooks_of_a_test:Kind", {"a": "1"})
    assert vars(hook) == {"told": {"a": "1"}}
    assert name_of(hook) == "hooks_of_a_test:Kind"


def test_a_class_needs_no_configure_and_may_stand_in_another() -> None:
    assert name_of(load("hooks_of_a_test:Bare")) == "hooks_of_a_test:Bare"
    assert name_of(load("hooks_of_a_test:Kind.Inner")) == "hooks_of_a_test:Kind.Inner"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("org.example.Policy", "it must name a Python class as package.module:Class"),
        ("no_such_module:Kind", "No module named 'no_such_module'"),
        ("hooks_of_a_test:None_", "module 'hooks_of_a_test' has no attribute 'None_'"),
        ("module_that_fails:Kind", "its module fails: ZeroDivisionError: division by zero"),
        ("hooks_of_a_test:thing", "it is no class"),
        ("hooks_of_a_test:Without", "a Wanted must have the method validate"),
        ("hooks_of_a_test:Broken", "OSError: no licence"),
    ],
)
def test_what_is_wrong_with_one_is_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == f"Invalid value {text} for configuration {KEY}: {reason}"


def test_what_a_hook_raises_as_its_answer_passes_and_the_rest_is_told_with_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = load_hook(KEY, "hooks_of_a_test:Kind", Wanted, {})
    assert call_hook(hook, hook.validate, "fine") == "FINE"
    with pytest.raises(LookupError):
        call_hook(hook, hook.validate, "answer", own=(LookupError,))
    assert not caplog.records
    with pytest.raises(HookFailed, match=r"^hooks_of_a_test:Kind has failed: ZeroDivisionError: of mine$"):
        call_hook(hook, hook.validate, "defect", own=(LookupError,))
    assert caplog.records[0].exc_info is not None


def test_closing_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    hook = load_hook(KEY, "hooks_of_a_test:Kind", Wanted, {})
    close_hook(hook)
    assert hook.closed
    close_hook(load("hooks_of_a_test:Bare"))
    with caplog.at_level(logging.ERROR):
        close_hook(load("hooks_of_a_test:Unclosable"))
    assert "close has failed" in caplog.text
