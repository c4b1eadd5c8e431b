"""asyncio without OpenSSL until TLS is needed.

Rule: a broker without TLS pays nothing for TLS, though asyncio alone imports 4 MB of it in 5 ms. The modules can be
imported as usual, and are loaded at the first access to an attribute. A module of its own, since it runs before all
other imports.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_FOR_TLS = ("ssl", "asyncio.sslproto")


class _Later:
    """A loader for first use: a module is loaded when an attribute is looked up (PEP 562), in any thread."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._lock = threading.RLock()
        self._loading = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None  # the usual one

    def exec_module(self, module: ModuleType) -> None:
        def look(name: str) -> Any:
            with self._lock:
                if not self._loading and "__getattr__" in vars(module):
                    self._load(module)
            try:
                return vars(module)[name]
            except KeyError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        vars(module)["__getattr__"] = look

    def _load(self, module: ModuleType) -> None:
        self._loading = True
        try:
            self._loader.exec_module(module)
            del vars(module)["__getattr__"]
        finally:
            self._loading = False


class _Finder:
    """A finder of the modules for TLS, and of no others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _FOR_TLS else None
        if spec is not None and spec.loader is not None:
            later: Any = _Later(spec.loader)
            spec.loader = later
        return spec


def import_asyncio() -> None:
    """Import asyncio without OpenSSL; to be called before any other import of asyncio."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        import asyncio  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
