"""Output and exit codes of the command; tests/testing tests the broker itself as a process."""

from __future__ import annotations

import errno
import logging
import runpy
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pykafka_broker
from pykafka_broker import __version__
from pykafka_broker.broker.setup import Setup
from pykafka_broker.cli import main
from pykafka_broker.cli.commands import COMMANDS
from pykafka_broker.cli.serve import reason_of
from pykafka_broker.cli.settings import ABSENT_MEMBER_MS
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.platform import STOP_SIGNALS
from pykafka_broker.server import Announce
from pykafka_broker.server.signals import StopSignals


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pytest's own handlers stay


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def setups() -> list[Setup]:
    """The setups that the server was started with, next to its configurations."""
    return []


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, setups: list[Setup]) -> list[BrokerConfig]:
    """The configurations that the server was started with, instead of starting it."""
    configs: list[BrokerConfig] = []

    def run(
        config: BrokerConfig, *, on_ready: Announce, signals: StopSignals, setup: Setup, beside: object = None
    ) -> int:
        configs.append(config)
        setups.append(setup)
        on_ready([("127.0.0.1", 4711), ("::", 4712)])
        return 0

    monkeypatch.setattr("pykafka_broker.server.run", run)
    return configs


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pykafka-broker {__version__}\n"


def test_help_begins_with_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("usage: pykafka-broker [server.properties] [options] ")
    assert {line.split()[1] for line in others[: len(COMMANDS)]} == set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--overide", "a=b"], "pykafka-broker: --overide is not a recognized option: did you mean --override?"),
        (["--port", "9092"], "pykafka-broker: --port is not a recognized option: did you mean --listen?"),
        (["control", "topcs"], "pykafka-broker control: there is no operation topcs; did you mean topics"),
        (["--list"], "pykafka-broker: --list is not a recognized option: did you mean --listen?"),
        (
            ["--bootstrap-server", "h:1", "topics", "--list"],
            "pykafka-broker: the command comes first: pykafka-broker topics --bootstrap-server ...",
        ),
        (["--zzz"], "pykafka-broker: --zzz is not a recognized option; pykafka-broker --help lists them"),
        (["proxy", "--to", "a:1", "--listn", "b"], "pykafka-broker proxy: --listn is not a recognized option: "),
        (
            ["control", "topics", "--nam", "x"],
            "pykafka-broker control topics: --nam is not a recognized option; pykafka-broker control topics --help ",
        ),
        (
            ["control", "wait-for-records", "t", "--n", "1"],
            "pykafka-broker control wait-for-records: --n is not a recognized option: give N without --n",
        ),
        (["log"], "pykafka-broker log: the following arguments are required: command"),
        (["log", "verify"], "pykafka-broker log verify: the following arguments are required: dir"),
        (["trace"], "pykafka-broker trace: a capture, --url or PYKAFKA_BROKER_CONTROL_URL is needed"),
        (["advise"], "pykafka-broker advise: a capture, --url or PYKAFKA_BROKER_CONTROL_URL is needed"),
        (["--log-level", "verbose"], "pykafka-broker: argument --log-level: invalid choice: 'verbose' "),
    ],
)
def test_a_mistyped_flag_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(line)


@pytest.mark.parametrize("other", [None, "127.0.0.1:4713\n"])
def test_ready_line_and_file_name_every_listener(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    other: str | None,
) -> None:
    """The broker removes its ready file at its end, unless another broker has overwritten it."""
    ready = tmp_path / "ready"

    def run(
        config: BrokerConfig, *, on_ready: Announce, signals: StopSignals, setup: Setup, beside: object = None
    ) -> int:
        on_ready([("127.0.0.1", 4711), ("::", 4712)])
        assert ready.read_bytes() == b"127.0.0.1:4711,[::]:4712\n"
        assert list(tmp_path.iterdir()) == [ready]
        if other is not None:
            ready.write_text(other)
        return 0

    monkeypatch.setattr("pykafka_broker.server.run", run)
    caplog.set_level("INFO")
    assert main(["--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--ready-file", str(ready)]) == 0
    assert capsys.readouterr().out == "listening on 127.0.0.1:4711,[::]:4712\n"
    assert [each.read_text() for each in tmp_path.iterdir()] == ([] if other is None else [other])
    (opened,) = [record.message for record in caplog.records if "open" in record.message]
    assert opened == "[::]:4712 is open on all network interfaces: everybody who reaches this machine can connect"


def test_an_old_ready_file_is_gone_before_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.write_text("127.0.0.1:1\n")

    def run(
        config: BrokerConfig, *, on_ready: Announce, signals: StopSignals, setup: Setup, beside: object = None
    ) -> int:
        assert not ready.exists()
        raise OSError("no luck")

    monkeypatch.setattr("pykafka_broker.server.run", run)
    assert main(["--ready-file", str(ready)]) == 1
    assert not ready.exists()


@pytest.mark.usefixtures("served")
def test_a_ready_file_that_cant_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ready"
    folder.mkdir()
    missing = tmp_path / "missing" / "ready"
    assert main(["--ready-file", str(folder)]) == 1
    assert main(["--ready-file", str(missing)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"pykafka-broker: cannot start: {folder}: Is a directory",
        f"pykafka-broker: cannot start: {missing}: No such file or directory",
    ]
    assert list(tmp_path.iterdir()) == [folder]


def test_ephemeral_directory_is_gone_afterwards(served: list[BrokerConfig]) -> None:
    assert main(["--ephemeral"]) == 0
    (path,) = served[0].data_dirs
    assert not Path(path).exists()


def test_groups_are_quick_where_it_is_for_tests(
    served: list[BrokerConfig], setups: list[Setup], tmp_path: Path
) -> None:
    for options in (["--ephemeral"], ["--quick-groups"], []):
        assert main([*options, *([] if "--ephemeral" in options else ["--data-dir", str(tmp_path)])]) == 0
    assert [config.group_consumer_heartbeat_interval_ms for config in served] == [100, 100, 5000]
    assert [setup.absent_member_ms for setup in setups] == [ABSENT_MEMBER_MS, ABSENT_MEMBER_MS, None]


@pytest.mark.usefixtures("served")
def test_the_cluster_id_of_container_images_counts(setups: list[Setup], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw\n"})
    assert main([]) == 0
    assert setups[0].cluster_id == "4L6g3nShT-eMCtK--X86sw"


def test_no_place_for_an_ephemeral_directory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: str | None, prefix: str, __: str | None) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", f"/tmp/{prefix}x")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    assert main(["--ephemeral"]) == 1
    expected = "pykafka-broker: cannot start: /tmp/pykafka-broker-x: No space left on device\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--listen", "{}"], "it must be HOST:PORT"),
        (["--control", "{}"], "it must be HOST:PORT"),
        (["--control", "0", "--control-nodes", "{}=x:1"], "it must be NODE=HOST:PORT"),
        (["--override", "listeners=PLAINTEXT://x:{}"], "it must be NAME://HOST:PORT"),
        (["features", "--bootstrap-server", "x:1", "upgrade", "--feature", "a={}"], "as a short"),
        (["topics", "--bootstrap-server", "x:{}", "--list"], "Failed to create new KafkaAdminClient"),
        (["format", "-t", "x", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations={}]"], "iterations count"),
    ],
)
def test_a_number_of_any_length_is_refused_in_a_line(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [each.replace("{}", "9" * 5000) for each in arguments]
    if given[0] == "format":
        properties = {"node.id": 1, "process.roles": "broker,controller", "controller.listener.names": "C"}
        properties |= {"log.dirs": tmp_path / "data", "listeners": "C://127.0.0.1:0"}
        text = "\n".join(f"{name}={value}" for name, value in properties.items())
        (tmp_path / "properties").write_text(text)
        given += ["-c", str(tmp_path / "properties"), "--standalone"]
    elif given[0].startswith("-"):
        given += ["--data-dir", str(tmp_path)]
    assert main(given) in (1, 2)
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told


def test_ephemeral_with_a_directory_is_a_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ephemeral", "--data-dir", "/data"]) == 2
    assert "--data-dir" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (["--listen", "0"], "listeners", "PLAINTEXT://127.0.0.1:0"),
        (["--listen", "0"], "port", "9093"),
        (["--data-dir", "/data"], "log.dirs", "/other"),
        (["--ephemeral"], "log.dir", "/kept"),
        (["--emulate", "3.9"], "pykafka.emulate", "2.8"),
        (["--strict"], "pykafka.strict", "false"),
    ],
)
def test_an_option_and_an_override_of_its_key_are_a_contradiction(
    options: list[str], key: str, value: str, served: list[BrokerConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--override", f"{key} = {value}"]) == 2
    told = f"pykafka-broker: {options[0]} wins over {key}: leave out --override {key}\n"
    assert capsys.readouterr().err == told
    assert not served


def test_bad_values_are_one_line_each(served: list[BrokerConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--override", "num.partitions=0", "--override", "log.retention.ms=week"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "pykafka-broker: Invalid value 0 for configuration num.partitions: Value must be at least 1",
        "pykafka-broker: Invalid value week for configuration log.retention.ms: Not a number of type LONG",
    ]
    assert not served


def test_refused_key_says_why(served: list[BrokerConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--override", "authorizer.class.name=a.B"]) == 2
    assert "authorizer.class.name: it names a Java class" in capsys.readouterr().err
    assert not served


def test_unknown_key_is_one_warning(served: list[BrokerConfig], caplog: pytest.LogCaptureFixture) -> None:
    assert main(["--override", "no.such.key=1"]) == 0
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == ["unknown config no.such.key is ignored"]
    assert served


def test_an_unknown_key_is_told_with_the_key_that_is_meant(
    served: list[BrokerConfig], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["--override", "log.retention.mss=1"]) == 0
    (warning,) = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith("unknown config log.retention.mss is ignored; did you mean log.retention.ms")


def test_a_temporary_directory_with_a_comma_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a,b"))
    assert main(["--ephemeral"]) == 1
    assert "a,b: a comma separates directories in log.dirs" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        taken = OSError(errno.EADDRINUSE, "Address already in use", address)
        hint = "another program listens there; port 0 takes a free port"
        assert reason_of(taken) == f"{address}: Address already in use ({hint})"
        with socket.create_connection(listener.getsockname()) as client:
            host, port = client.getsockname()
            taken = OSError(errno.EADDRINUSE, f"control on {host}:{port}: Address already in use")
            why = "two addresses of this broker are the same, or it is the port of a connection of another program"
            assert f"no other program listens there: {why}" in reason_of(taken)
    taken = OSError(errno.EADDRINUSE, "Address already in use", "nowhere")
    assert reason_of(taken) == f"nowhere: Address already in use ({hint})"


@pytest.mark.parametrize("error", [LogDirectoryError("/data is in use"), OSError("Address already in use")])
def test_a_start_that_fails_says_why(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(
        config: BrokerConfig, *, on_ready: Announce, signals: StopSignals, setup: Setup, beside: object = None
    ) -> int:
        raise error

    monkeypatch.setattr("pykafka_broker.server.run", run)
    assert main([]) == 1
    assert capsys.readouterr().err == f"pykafka-broker: cannot start: {error}\n"


def test_configs_lists_every_key_with_its_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "broker  num.partitions  int  1  honoured" in lines
    assert "broker  zookeeper.set.acl  boolean  false  no effect: removed in Kafka 4.0" in lines
    assert any(line.startswith("topic  retention.ms ") for line in lines)


def test_configs_can_be_narrowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "--scope", "topic", "--effect", "refused"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("topic  ") and "refused: " in line for line in lines)


def test_log_looks_into_a_data_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(tmp_path / "nowhere")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"pykafka-broker log: {tmp_path / 'nowhere'} is not a directory\n"
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"no batch at all" * 10)
    assert main(["log", "verify", str(tmp_path)]) == 1
    assert "00000000000000000000.log" in capsys.readouterr().out


def test_a_command_that_only_looks_ends_quietly_with_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pykafka_broker.log.tool.command.run", interrupted)
    assert main(["log", "verify", "/data"]) == 130
    assert capsys.readouterr().err == ""


def test_an_older_python_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip refuses to install there, but a clone may be on the path."""
    with monkeypatch.context() as older:
        older.setattr(sys, "version_info", (3, 10, 13, "final", 0))
        with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer; .* is 3\."):
            runpy.run_path(pykafka_broker.__file__)
