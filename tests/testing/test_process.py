"""`KafkaBroker`: a real process that starts, is killed, comes back, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.platform import KILL
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.testing import BrokerError, KafkaBroker, KafkaCluster, process
from pykafka_broker.testing.control_client import ControlClient

API_VERSIONS = struct.pack(">ihhih", 12, 18, 0, 7, 2) + b"me"


def answers(broker: KafkaBroker) -> bool:
    """Return whether an ApiVersions request is answered with its correlation id."""
    with socket.create_connection((broker.host, broker.port), timeout=10) as connection:
        connection.sendall(API_VERSIONS)
        return connection.recv(8, socket.MSG_WAITALL)[4:] == struct.pack(">i", 7)


def ask_for_a_topic(broker: KafkaBroker) -> None:
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=5_000).encode(2)
    frame = struct.pack(">hhih", 19, 2, 7, 2) + b"me" + request
    with socket.create_connection((broker.host, broker.port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        connection.recv(8)


def wait_until_gone(pid: int, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":  # its parent is gone or has not looked yet; it holds nothing any more
            return
        time.sleep(0.02)
    os.kill(pid, KILL)
    pytest.fail(f"process {pid} is still there")


def test_block_has_a_broker_and_leaves_nothing() -> None:
    with KafkaBroker() as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert answers(broker)
        assert (broker.data_dir / "meta.properties").exists()
        pid, data_dir = broker.pid, broker.data_dir
    assert not broker.running
    assert not data_dir.exists()
    wait_until_gone(pid)


def test_two_brokers_at_once() -> None:
    with KafkaBroker() as one, KafkaBroker() as other:
        assert one.port != other.port
        assert answers(one)
        assert answers(other)


@pytest.mark.posix("Windows has no process groups to ask for")
def test_a_ctrl_c_of_the_terminal_does_not_reach_it() -> None:
    with KafkaBroker() as broker:
        assert os.getpgid(broker.pid) != os.getpgid(0)  # to all of the tests' group the terminal sends SIGINT


@pytest.mark.skipif(not hasattr(os, "getsid"), reason="Windows has no sessions")
def test_it_has_a_session_of_its_own_and_so_its_share_of_the_cpu() -> None:
    """The broker's process has its own session, since Linux with autogroups shares out CPU by session."""
    with KafkaBroker() as broker:
        assert os.getsid(broker.pid) == broker.pid


def test_kill_and_restart_keep_port_and_data() -> None:
    with KafkaBroker() as broker:
        port, pid = broker.port, broker.pid
        identity = (broker.data_dir / "meta.properties").read_text()
        broker.kill()
        assert not broker.running
        broker.start()
        assert (broker.port, broker.running) == (port, True)
        assert broker.pid != pid
        broker.restart()
        assert answers(broker)
        assert (broker.data_dir / "meta.properties").read_text() == identity


def test_given_data_dir_stays(tmp_path: Path) -> None:
    with KafkaBroker(data_dir=tmp_path / "data"):
        pass
    assert (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.parametrize("name", ["log.dirs", "log.dir"])
def test_data_dir_is_the_first_that_the_config_names(tmp_path: Path, name: str) -> None:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")] if name == "log.dirs" else str(tmp_path / "one")
    assert KafkaBroker({name: dirs}).data_dir == tmp_path / "one"


def test_second_broker_on_a_locked_directory_is_told(tmp_path: Path) -> None:
    with (
        KafkaBroker(data_dir=tmp_path),
        pytest.raises(BrokerError, match=r"exit code 1") as caught,
        KafkaBroker(data_dir=tmp_path),
    ):
        pytest.fail("it must not start")
    assert "lock" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_broker_without_a_directory_ends_and_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with KafkaBroker(data_dir=data) as broker:
        child = broker._process
        assert child is not None
        data.rename(tmp_path / "away")
        data.write_text("not a directory")
        with contextlib.suppress(ConnectionError):  # where what the start leaves to a thread has noticed it before
            ask_for_a_topic(broker)
        assert child.wait(timeout=20) == 1
        assert "all log directories have failed" in broker.log
    assert not (tmp_path / "away/.kafka_cleanshutdown").exists()


def test_taken_port_is_told() -> None:
    with (
        KafkaBroker() as first,
        pytest.raises(BrokerError, match=r"exit code 1") as caught,
        KafkaBroker(port=first.port),
    ):
        pytest.fail("it must not start")
    assert "cannot start" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_modules_of_the_tests_are_not_the_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "selectors.py").write_text("raise ImportError('not meant for the broker')\n")
    monkeypatch.chdir(tmp_path)
    with KafkaBroker() as broker:
        assert answers(broker)


def test_a_line_of_somebody_else_on_its_output_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with KafkaBroker() as broker:
        assert answers(broker)


def test_an_installed_package_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    checkout = str(Path(process.__file__).parents[2])
    assert process._environment()["PYTHONPATH"] == f"{checkout}{os.pathsep}/mine"
    installed = Path(sysconfig.get_path("purelib"), "pykafka_broker", "testing", "process.py")
    monkeypatch.setattr(process, "__file__", str(installed))
    assert process._environment()["PYTHONPATH"] == "/mine"


def test_bad_config_is_in_the_error() -> None:
    with (
        pytest.raises(BrokerError, match=r"Invalid value 0 for configuration num\.partitions: Value must be"),
        KafkaBroker({"num.partitions": 0}),
    ):
        pytest.fail("it must not start")


def test_settings_are_kafkas_text_and_the_environment_adds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "0")
    broker = KafkaBroker({"auto.create.topics.enable": False, "log.cleanup.policy": ["compact", "delete"]})
    assert broker.config == {"auto.create.topics.enable": "false", "log.cleanup.policy": "compact,delete"}
    with broker:
        assert answers(broker)


@pytest.mark.parametrize(
    ("name", "meant"), [("num_partitions", "; did you mean num.partitions"), ("nonsense", r" \(allow_unknown_config")]
)
def test_a_name_that_kafka_does_not_know_is_an_error(name: str, meant: str) -> None:
    known = {"num.partitions": 3, "listener.name.internal.ssl.protocol": "TLS"}
    with pytest.raises(ValueError, match=rf"^unknown config {name}{meant}"):
        KafkaBroker({name: 3, **known})
    assert KafkaBroker({name: 3, **known}, allow_unknown_config=True).config[name] == "3"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"config": 3}, TypeError, r'config must be a dict of broker configs, such as {"num.partitions": 3}, not 3$'),
        ({"config": "a=b"}, TypeError, "config must be a dict of broker configs, .* not 'a=b'$"),
        ({"port": "9092"}, TypeError, "port must be a number, 0 for one that is free, not '9092'"),
        ({"start_timeout_s": "5"}, TypeError, "start_timeout_s must be a number of seconds, not '5'"),
        ({"config": {1: 2}}, TypeError, "the name of a broker config must be a string, not 1"),
        ({"config": {"broker.rack": None}}, TypeError, "config broker.rack must be text, a number, .* not None$"),
        ({"config": {"broker.rack": b"a"}}, TypeError, "config broker.rack must be text, .* not b'a'$"),
        ({"config": {"log.dirs": {"/a"}}}, TypeError, "config log.dirs must be text, .* or a list, not {'/a'}$"),
        ({"emulate": 2.8}, TypeError, r"emulate must be a string, such as '2\.8', not 2\.8"),
        ({"log_level": "verbose"}, ValueError, "log_level must be one of debug, info, warning, error, not 'verbose'"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        KafkaBroker(**given)


def test_a_broker_that_was_not_started_has_no_address() -> None:
    broker = KafkaBroker()
    assert repr(broker) == "<KafkaBroker, not running>"
    for ask in (lambda: broker.bootstrap_servers, lambda: broker.port, lambda: broker.client_config("confluent")):
        with pytest.raises(BrokerError, match="no address yet: start it first"):
            ask()
    with pytest.raises(BrokerError, match="the broker is not started"):
        broker.topics()
    with broker:
        address = broker.bootstrap_servers
        broker.stop()
        assert broker.bootstrap_servers == address  # where it is when it is started again


@pytest.mark.parametrize(
    "end", ["", "broker.restart(); broker.topics()", "broker.kill()", "RemoteBroker(broker.control_url).topics()"]
)
def test_nothing_is_left_open(end: str) -> None:
    code = f"""
        import gc, threading
        from pykafka_broker.testing import KafkaBroker, RemoteBroker
        with KafkaBroker() as broker:
            broker.topics()
            threads = [threading.Thread(target=broker.topics) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            gc.collect()
            {end}
        gc.collect()
        del broker
        gc.collect()
    """
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", textwrap.dedent(code)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_first_of_several_listeners_is_its_address() -> None:
    listeners = ["ONE://127.0.0.1:0", "TWO://[::1]:0"]
    names = {"listeners": listeners, "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT"}
    with KafkaBroker(names | {"inter.broker.listener.name": "ONE"}) as broker:
        assert broker.host == "127.0.0.1"
        assert answers(broker)


def test_groups_are_quick_unless_told_otherwise() -> None:
    assert "--quick-groups" in KafkaBroker()._command()
    assert "--quick-groups" not in KafkaBroker(quick_groups=False)._command()


def test_log_of_a_failed_block_is_attached() -> None:
    with pytest.raises(ZeroDivisionError) as caught, KafkaBroker({"num.network.threads": 2}):
        _ = 1 / 0
    assert "accepted without effect: num.network.threads" in "".join(caught.value.__notes__)


def test_its_log_has_every_request_at_level_debug() -> None:
    with KafkaBroker(log_level="debug") as broker:
        assert answers(broker)
        assert "API_VERSIONS api_key=18 version=0 correlation_id=7 client_id='me' from 127.0.0.1" in broker.log


def test_repr_says_where_it_is_and_whether_it_runs() -> None:
    broker = KafkaBroker(port=4711)
    assert repr(broker) == "<KafkaBroker at 127.0.0.1:4711, not running>"
    with KafkaBroker() as broker:
        assert repr(broker) == f"<KafkaBroker at {broker.bootstrap_servers}, pid {broker.pid}>"


def test_misuse_is_refused() -> None:
    with KafkaBroker() as broker:
        with pytest.raises(BrokerError, match="already running"):
            broker.start()
        broker.stop()
        broker.stop()
        with pytest.raises(BrokerError, match="not running: it ended with exit code 0"):
            broker.topics()
    with pytest.raises(BrokerError, match="closed"):
        broker.start()


@pytest.mark.parametrize("logs", ["logs", "logs,more"])
def test_a_fork_has_its_own_directory_of_the_metadata(tmp_path: Path, logs: str) -> None:
    named = ",".join(str(tmp_path / each) for each in logs.split(","))
    for metadata in (tmp_path / "metadata", Path(named.split(",")[-1])):
        config = {"log.dirs": named, "metadata.log.dir": metadata}
        with KafkaBroker(config, in_process=True) as broker:
            broker.create_topic("orders", exist_ok=True)
            with broker.fork() as fork:
                assert not {*fork._directories} & {*broker._directories}
                assert len(fork._directories) == len(broker._directories)
                assert [each["name"] for each in fork.topics()] == ["orders"]
        for each in {*named.split(","), str(metadata)}:
            shutil.rmtree(each)


@pytest.mark.posix("Windows has no fork")
def test_a_child_that_was_forked_leaves_the_broker_its_directory() -> None:
    code = """
        import os
        from pykafka_broker.testing import KafkaBroker
        broker = KafkaBroker()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print(broker.log_path.parent.exists())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.posix("Windows has no fork")
def test_a_child_that_was_forked_has_connections_of_its_own() -> None:
    code = """
        import os
        from pykafka_broker.testing import KafkaBroker
        with KafkaBroker() as broker:
            broker.create_topic("orders")
            def place():
                return broker.control._idle[0].sock.getsockname()
            before = place()
            child = os.fork()
            if not child:
                names = [topic["name"] for topic in broker.topics()]
                os._exit(0 if names == ["orders"] and place() != before else 1)
            print(os.waitpid(child, 0)[1])
            broker.topics()
            print(place() == before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\nTrue\n"


def test_a_time_out_names_the_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = ControlClient(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TimeoutError, match=r"^http://127\.0\.0\.1:\d+: no answer within 0\.1 s$"):
            client.call("GET", "/healthz", timeout_s=0.1)


def test_a_fork_is_made_as_its_broker() -> None:
    with KafkaBroker(emulate="2.8", strict=False, history=True) as broker, broker.fork() as fork:
        assert (fork.emulate, fork.strict) == ("2.8", False)
        assert fork.history_path != broker.history_path
        assert fork.check(empty_ok=True) == []


@pytest.mark.linux("/proc tells when a process is gone")
@pytest.mark.parametrize("given", [False, True])
def test_broker_and_what_is_temporary_end_when_its_parent_is_killed(tmp_path: Path, given: bool) -> None:
    data_dir = tmp_path / "given" if given else None
    code = f"""
        from pykafka_broker.testing import KafkaBroker
        broker = KafkaBroker(data_dir={str(data_dir) if given else None!r}).start()
        print(broker.pid, broker.data_dir, flush=True)
        input()
    """
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    with parent:
        assert parent.stdout is not None
        pid, used = parent.stdout.readline().rstrip("\n").split(" ", 1)
        os.kill(int(pid), 0)
        assert len(list(temporary.iterdir())) == 1
        parent.kill()
    wait_until_gone(int(pid))
    assert list(temporary.iterdir()) == []
    assert Path(used, ".kafka_cleanshutdown").exists() == given


@pytest.mark.parametrize("name", ["a,b", " a", "a "])
def test_a_directory_that_log_dirs_would_read_otherwise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path with a comma is refused: log.dirs would read two directories, the second one relative."""
    says = "a comma separates directories in log.dirs"
    relative = Path(name) if name[0] == " " else tmp_path / name
    for make in (KafkaBroker, KafkaCluster):
        with pytest.raises(ValueError, match=says):
            make(data_dir=relative)
    monkeypatch.setattr("tempfile.tempdir", str(relative))
    monkeypatch.setenv("TMPDIR", str(relative))
    with pytest.raises(ValueError, match=f"the directory of temporary files .*{says}"):
        KafkaBroker()


@pytest.mark.linux("names of files are bytes")
def test_a_directory_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    with KafkaBroker(data_dir=folder, in_process=True) as broker:
        broker.create_topic("orders")
        broker.snapshot("before")
        broker.restore("before")
        with broker.fork() as fork:
            assert [each["name"] for each in fork.topics()] == ["orders"]
