"""A bar on a terminal, and nothing anywhere else."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker

pty = pytest.importorskip("pty", reason="Windows has no such terminals")
termios = pytest.importorskip("termios")

PERF = ("producer-perf-test", "--topic", "a", "--num-records", "2000", "--record-size", "10", "--throughput", "-1")
HIDDEN = "import sys; sys.modules['tqdm'] = None; from pykafka_broker.cli import main; sys.exit(main(sys.argv[1:]))"


def on_a_terminal(*command: str, stdin: Path | None = None) -> tuple[str, str]:
    """Run a command; return what it prints to a file and to the terminal that is its standard error."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    shown = b""
    # A pipe that nobody reads meanwhile may be full.
    with (stdin or Path(os.devnull)).open("rb") as source, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdin=source, stdout=printed, stderr=theirs)
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # nobody has it open any more
            pass
        finally:
            os.close(ours)
        assert process.wait(30) == 0, shown.decode()
        printed.seek(0)
        return printed.read().decode(), shown.decode()


def test_a_bar_is_shown_only_on_a_terminal_and_only_if_tqdm_is_there(tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    python, tool = sys.executable, (sys.executable, "-m", "pykafka_broker")
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a", 1)
        where = ("--bootstrap-server", broker.bootstrap_servers)
        out, shown = on_a_terminal(*tool, *PERF, *where)
        assert "2000 records sent" in out
        assert "sending: " in shown
        assert "/2000 [" in shown
        out, shown = on_a_terminal(python, "-c", HIDDEN, *PERF, *where)
        assert "2000 records sent" in out
        assert shown == ""
        lines = tmp_path / "lines"
        lines.write_bytes(b"0123456789\n" * 1000)
        _, shown = on_a_terminal(*tool, "console-producer", "--topic", "a", *where, stdin=lines)
        assert "sending: " in shown
        assert "11.0k" in shown
        read = (
            "console-consumer",
            "--topic",
            "a",
            "--from-beginning",
            "--max-messages",
            "5000",
            "--timeout-ms",
            "9000",
        )
        out, shown = on_a_terminal(*tool, *read, *where)
        assert out.count("\n") == 5000
        assert "/5000 [" in shown
        piped = subprocess.run([*tool, *PERF, *where], capture_output=True, text=True, check=True)
        assert piped.stderr == ""
