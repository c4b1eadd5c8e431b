"""Objects of classes that a configuration names.

Rule: a class of Python is written `package.module:Class`, so that it is never taken for one of Java. It is imported as
usual, also from the working directory. Each broker makes one object for a setting, without arguments, and passes all
static settings to `configure`, if the class has such a method; likewise `close` is called at the end. An unexpected
exception of the class is told in one line with the name of the class, so `except Exception` stands here.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pykafka_broker.config.values import ConfigError, invalid

log = logging.getLogger(__name__)

R = TypeVar("R")

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class HookFailed(Exception):
    """A hook has raised an unexpected exception; the text names the hook and the error."""


def is_python_class(text: str) -> bool:
    """Return whether a text is written as a class of Python."""
    return _NAME.fullmatch(text) is not None


def load_hook(key: str, text: str, protocol: type, configs: Mapping[str, str]) -> Any:
    """Return an object of the class `text`, the value of the config `key`, with all methods of `protocol`.

    Raises ConfigError if there is no such class, or it fails.
    """
    if not is_python_class(text):
        raise invalid(key, text, "it must name a Python class as package.module:Class")
    module, _, path = text.partition(":")
    try:
        found: Any = _module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise invalid(key, text, str(error)) from None
    except Exception as error:
        raise invalid(key, text, f"its module fails: {_told(error)}") from error
    if not isinstance(found, type):
        raise invalid(key, text, "it is no class")
    missing = [name for name in _methods(protocol) if not callable(getattr(found, name, None))]
    if missing:
        raise invalid(key, text, f"a {protocol.__name__} must have the method {missing[0]}")
    return _made(found, key, text, configs)


def call_hook(hook: object, method: Callable[..., R], *arguments: Any, own: tuple[type[Exception], ...] = ()) -> R:
    """Return the result of a hook's method.

    Exceptions of the kinds `own`, which are answers, pass; any other is logged and becomes HookFailed.
    """
    try:
        return method(*arguments)
    except own:
        raise
    except Exception as error:
        told = f"{name_of(hook)} has failed: {_told(error)}"
        log.error("%s", told, exc_info=error)
        raise HookFailed(told) from None


def close_hook(hook: object) -> None:
    """Close a hook at the end of the broker. Never raises."""
    try:
        if callable(close := getattr(hook, "close", None)):
            close()
    except Exception as error:
        log.error("%s: close has failed", name_of(hook), exc_info=error)


def name_of(hook: object) -> str:
    return f"{type(hook).__module__}:{type(hook).__qualname__}"


def _module(name: str) -> Any:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _methods(protocol: type) -> list[str]:
    return [
        name
        for base in protocol.__mro__
        if base.__module__ != "typing"
        for name, value in vars(base).items()
        if callable(value) and not name.startswith("_")
    ]


def _made(cls: type, key: str, text: str, configs: Mapping[str, str]) -> Any:
    try:
        made = cls()
        if callable(configure := getattr(made, "configure", None)):
            configure(configs)
    except ConfigError:
        raise
    except Exception as error:
        raise invalid(key, text, _told(error)) from error
    return made


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
