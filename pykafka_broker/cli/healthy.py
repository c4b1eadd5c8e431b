"""`python -m pykafka_broker.cli.healthy READY_FILE`: checks whether the broker that wrote the file serves.

Rule: exit code 0 if the first listener of the file (`--ready-file`) accepts a connection now, 1 with one line
otherwise. There is no login, so any kind of listener will do.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from pykafka_broker.addresses import split_address

_TIMEOUT_S = 2.0
_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def main() -> int:
    """Run the check and return the exit code."""
    try:
        first = Path(sys.argv[1]).read_text(encoding="ascii").partition(",")[0].strip()
        host, port = split_address(first)
        with socket.create_connection((_EVERY_INTERFACE.get(host, host), int(port)), timeout=_TIMEOUT_S):
            return 0
    except (IndexError, OSError, ValueError) as error:
        print(f"not ready: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
