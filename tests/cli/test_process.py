"""The command as a process: its output, the files it leaves, its exit."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka_broker.platform import STOP_SIGNALS

COMMAND = [sys.executable, "-m", "pykafka_broker"]
ROOT = Path(__file__).parents[2]


def environment(tmp_path: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    return ours | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}


@pytest.fixture(autouse=True)
def _without_nohup() -> Iterator[None]:
    """Under nohup the children would ignore SIGHUP, which they should then."""
    hang_up = getattr(signal, "SIGHUP", signal.SIGTERM)
    before = signal.signal(hang_up, signal.SIG_DFL)
    yield
    signal.signal(hang_up, before)


@pytest.mark.posix("any signal ends a process at once on Windows")
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_ephemeral_broker_ends_cleanly_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ready = tmp_path / "ready"
    options = ["--listen", "127.0.0.1:0", "--ephemeral", "--ready-file", str(ready)]
    with subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(temporary)
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"listening on {ready.read_text()}"
        assert len(list(temporary.iterdir())) == 1
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert f"data in {temporary}/" in err
    assert "Traceback" not in err
    assert list(temporary.iterdir()) == []
    assert not ready.exists()  # so the next run's script can't read this run's address


@pytest.mark.posix("any signal ends a process at once on Windows")
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_one_that_is_stopped_before_it_serves_leaves_nothing_either(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        [*COMMAND, "--listen", "127.0.0.1:0", "--ephemeral"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(temporary),
    ) as process:
        while process.poll() is None and not list(temporary.iterdir()):
            pass  # its directory is the first thing that it makes
        process.send_signal(number)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert list(temporary.iterdir()) == []


def test_every_listen_is_bound(tmp_path: Path) -> None:
    options = ["--listen", "0", "--listen", ":0", "--ephemeral", "--stop-on-stdin-close"]
    with subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(tmp_path),
    ) as process:
        assert process.stdout is not None
        addresses = process.stdout.readline().removeprefix("listening on ").split(",")
        assert [address.rpartition(":")[0] for address in addresses] == ["127.0.0.1", "0.0.0.0"]
        for address in addresses:
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10).close()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_environment_and_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.ms=soon\n")
    done = subprocess.run(
        [*COMMAND, str(file)],
        env=environment(tmp_path) | {"KAFKA_NUM_PARTITIONS": "none", "KAFKA_HEAP_OPTS": "-Xmx1g"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "pykafka-broker: Invalid value soon for configuration log.retention.ms: Not a number of type LONG",
        "pykafka-broker: Invalid value none for configuration num.partitions: Not a number of type INT",
    ]


def test_a_listener_that_can_not_be_served_is_told(tmp_path: Path) -> None:
    options = ["--ephemeral", "--override", "listeners=SSL://127.0.0.1:0"]
    done = subprocess.run(
        [*COMMAND, *options], env=environment(tmp_path), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "SSL" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.linux("needs /dev/full")
def test_a_ready_line_that_nobody_can_get_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "--ephemeral", "--listen", "127.0.0.1:0"],
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "pykafka-broker: cannot start: standard output: No space left on device"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.linux("needs /dev/full")
@pytest.mark.parametrize("command", ["random-uuid", "completion bash", "configs", "version-mapping", "help"])
def test_a_command_that_can_not_print_says_so(command: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *command.split()],
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "pykafka-broker: standard output: No space left on device\n")


@pytest.mark.posix("Windows has other words for the error")
def test_an_impossible_data_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "data"
    command = [*COMMAND, "--listen", "127.0.0.1:0", "--data-dir", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(tmp_path))
    assert done.returncode == 1
    told = f"pykafka-broker: cannot start: None of the log directories can be used: {place}: Not a directory"
    assert done.stderr.splitlines() == [told]


@pytest.mark.posix("Windows has other words for the error")
@pytest.mark.parametrize(("flag", "what"), [("--control", "control"), ("--schema-registry", "schema registry")])
def test_a_used_port_is_told_in_few_words(tmp_path: Path, flag: str, what: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*COMMAND, "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), flag, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(tmp_path))
    assert done.returncode == 1
    told = f"pykafka-broker: cannot start: {what} on {address}: {os.strerror(errno.EADDRINUSE)} ("
    assert done.stderr.splitlines()[-1].startswith(told)


@pytest.mark.posix("a shell closes the streams")
def test_closed_streams_are_empty_and_take_everything(tmp_path: Path) -> None:
    """An error is no output for the program that reads the other stream."""

    def run(words: str) -> tuple[int, str, str]:
        script = f"{' '.join(COMMAND)} {words}"
        ended = subprocess.run(
            script, shell=True, capture_output=True, text=True, timeout=60, check=False, env=environment(tmp_path)
        )
        return ended.returncode, ended.stdout, ended.stderr

    assert run("random-uuid >&-") == (0, "", "")
    assert run("topics --bootstrap-server localhost:1 --odd 2>&-") == (1, "", "")
    console = "console-producer --bootstrap-server localhost:1 --topic t"
    assert run(f"{console} --command-property max.block.ms=100 <&-") == (0, "", "")
    assert run("features --bootstrap-server localhost:1 version-mapping >&-") == (0, "", "")


def test_every_text_is_printed_whatever_the_encoding_of_standard_output(tmp_path: Path) -> None:
    command = [*COMMAND, "consumer-groups", "--validate-regex", "\u2603"]
    latin = environment(tmp_path) | {"PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=latin)
    assert (ended.returncode, ended.stdout) == (0, "The regular expression `\\u2603` is valid.\n")
