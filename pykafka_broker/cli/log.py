"""`pykafka-broker log dump|verify|repair DIR`: reads and repairs a data directory that no broker is using.

Rule: the work is in `log/tool/`; this module adds the clock and the standard streams.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from pykafka_broker.log.tool.command import run


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `log`. Returns the exit code."""
    return run(arguments[1:], print, int(time.time() * 1000), complain=_complain)


def _complain(line: str) -> None:
    print(f"pykafka-broker log: {line}", file=sys.stderr)
