"""CRC-32C, by the extension module of the package `crc32c`.

Rule: the extension module is loaded without the package around it. The package's `__init__` builds a command line and
asks for its own version, which parses the metadata of installed distributions: 20 to 40 ms of a start that may take
250. Where the extension isn't found as expected, the package is imported the ordinary way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

Buffer = bytes | bytearray | memoryview


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    if "crc32c" not in sys.modules and package is not None:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules.setdefault(spec.name, module)  # a later import finds this module
            function: Callable[[Buffer], int] = module.crc32c
            return function
    from crc32c import crc32c

    return crc32c


crc32c = _load()
