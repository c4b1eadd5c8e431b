"""Commands end as the page of exit codes says, with a line on standard error where they fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages.exit_codes import BROKER, OWN_COMMANDS, TOOLS, Ending

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [each for each in (*BROKER, *OWN_COMMANDS, *TOOLS) if each.command is not None]


@pytest.fixture
def ports() -> Iterator[dict[str, str]]:
    """The addresses that the words TAKEN and FREE stand for: one in use, and one that is free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, free)]
        free.close()
        yield dict(zip(("TAKEN", "FREE"), addresses, strict=True))


@pytest.mark.parametrize("ending", SHOWN, ids=lambda ending: ending.command)
def test_a_command_ends_as_it_is_said(ending: Ending, ports: dict[str, str], tmp_path: Path) -> None:
    command = ending.command or ""
    for word, address in ports.items():
        command = command.replace(word, address)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "PYKAFKA_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pykafka_broker", *command.split()],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, bool(done.stderr)) == (ending.code, ending.code != 0), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
