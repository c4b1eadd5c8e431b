"""The trial of an installed package on every platform: `python trial.py`, in the environment that has it.

Rule: the broker is started, and records are written and read with the package's own tools, in each compression of the
protocol: with that every dependency that is compiled has been used. It needs nothing but the package. The last line
says where it was: the system, the Python, and whether that has a GIL after all these imports.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig

from pykafka_broker.testing import KafkaBroker

LETTERS = "ä→ő"  # not all in any code page of Windows
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 100


def main() -> None:
    with KafkaBroker() as broker:
        for codec in CODECS:
            carried(broker, codec)
    print("ok:", where())


def carried(broker: KafkaBroker, codec: str) -> None:
    """Write records with one tool and read them with another: the one compresses, the broker looks, the other opens."""
    written = [f"apples {number} {LETTERS}" for number in range(COUNT)]
    at = ["--bootstrap-server", broker.bootstrap_servers, "--topic", codec]
    tool("topics", "--create", *at)
    tool("console-producer", *at, "--compression-codec", codec, given="".join(f"{line}\n" for line in written))
    read = tool("console-consumer", *at, "--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "60000")
    assert read.split("\n")[:COUNT] == written, f"{codec}: what was written is not read: {read[:200]}"
    assert [each.value for each in broker.records(codec)] == written, f"{codec}: the broker has something else"


def tool(name: str, *options: str, given: str = "") -> str:
    command = [sys.executable, "-m", "pykafka_broker", name, *options]
    outcome = subprocess.run(command, input=given, capture_output=True, encoding="utf-8")
    assert outcome.returncode == 0, f"{name} ends with {outcome.returncode}: {outcome.stderr}"
    return outcome.stdout


def where() -> str:
    import cramjam  # noqa: F401 - an import may bring the GIL back: all that are compiled have to be there
    import crc32c  # noqa: F401

    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    library = "musl" if musl else platform.libc_ver()[0] or "another libc"
    return f"{platform.system()} {platform.machine()} ({library}), Python {platform.python_version()}" + (
        "" if has_gil else ", without the GIL"
    )


if __name__ == "__main__":
    main()
