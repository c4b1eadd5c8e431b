"""`pykafka-broker cluster`: it prints the addresses of the nodes, and ends all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka_broker.cli.cluster import main

COMMAND = [sys.executable, "-m", "pykafka_broker", "cluster", "--port", "0"]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.posix("any signal ends a process at once on Windows")
def test_it_tells_the_nodes_and_ends_them_with_itself(tmp_path: Path) -> None:
    command = [*COMMAND, "--brokers", "2", "--racks", "a,b", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    kinds = [line.split(" at ")[0] for line in lines[:3]]
    assert kinds == ["broker 1", "broker 2", "controller 100"]
    addresses = [line.split(" at ")[1].split(",")[0] for line in lines[:2]]
    assert lines[3] == f"listening on {','.join(addresses)}\n"
    assert not any(is_there(int(line.rsplit("pid ", 1)[1])) for line in lines[:3])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["node-1", "node-100", "node-2"]


@pytest.mark.posix("Windows has no signal that starts nodes again")
def test_a_node_that_was_killed_is_told_and_started_again(tmp_path: Path) -> None:
    command = [*COMMAND, "--brokers", "1", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        broker, _, _ = (process.stdout.readline() for _ in range(3))
        os.kill(int(broker.rsplit("pid ", 1)[1]), signal.SIGKILL)
        told = process.stderr.readline()
        process.send_signal(signal.SIGUSR1)
        again = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert told.startswith("broker 1 has ended, its log is /")
    assert told.endswith(f"; kill -USR1 {process.pid} starts it again\n")
    assert again.split(",")[:2] == broker.split(",")[:2]  # the same addresses
    assert again != broker


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--brokers", "0"], "at least one broker"),
        (["--brokers", "100"], "at most 99 brokers"),
        (["--brokers", "3", "--port", "65533"], "port 65533 is not within 0 to 65532: 4 ports are taken"),
        (["--port", "-1"], "port -1 is not within 0 to 65532"),
        (["--override", "retention"], "it must be KEY=VALUE"),
        (
            ["--override", "num.partition=3"],
            "unknown config num.partition; did you mean num.partitions or offsets.topic.num.partitions?\n",
        ),
        (["--brokers", "2", "--racks", "a"], "1 racks for 2 brokers"),
    ],
)
def test_what_is_wrong_is_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cluster", *options])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_broker_that_can_t_start_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--brokers", "1", "--port", "0", "--override", "num.io.threads=none"]) == 1
    assert "num.io.threads" in capsys.readouterr().err


def test_an_address_of_another_machine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--brokers", "1", "--port", "0", "--host", "192.0.2.1"]) == 1
    assert capsys.readouterr().err.startswith("pykafka-broker cluster: cannot start: 192.0.2.1: ")
