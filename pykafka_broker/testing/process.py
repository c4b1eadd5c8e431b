"""The broker's process as an object.

Rule: the child listens on a port that the kernel chose and prints it on its standard output; it reads its standard
input only to learn that its parent is gone, or to be told to stop where no signal can be sent.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from pykafka_broker.addresses import address_text, split_address
from pykafka_broker.platform import CREATION_FLAGS, KILL, STOP, file_path, memory_directory, resume, suspend
from pykafka_broker.testing.arguments import (
    check_directory,
    check_known,
    check_release,
    check_timeout,
    check_type,
    config_texts,
    listed,
)
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.controlled import Controlled
from pykafka_broker.testing.data import BrokerError

if TYPE_CHECKING:
    import asyncio

    from pykafka_broker.testing.answers import RecordingState
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker
    from pykafka_broker.testing.broker_recording import BrokerRecorder
    from pykafka_broker.testing.in_process import BrokerInProcess
    from pykafka_broker.testing.security_spec import SecuritySpec


__tracebackhide__ = told_to_the_test

READY = "listening on "
CONTROL = "control on "
SCHEMA_REGISTRY = "schema registry on "
STOP_LINE = b"stop\n"  # on standard input, where no signal can be sent
LOG_TAIL_BYTES = 16_000
Options = dict[str, str | bool | list[str] | None]  # of the command, by name; None, or nothing, for one not given
LOG_LEVELS = ("debug", "info", "warning", "error")


def security_of(
    host: str,
    protocol: str | None,
    users: Mapping[str, str] | Iterable[str],
    acls: Iterable[str] | None,
    mechanisms: Iterable[str] | None,
    client_auth: str | None,
) -> SecuritySpec | None:
    """Return the security of a broker or a cluster, by arguments of `KafkaBroker`; None without any of them."""
    if protocol is None and not users and acls is None and mechanisms is None and client_auth is None:
        return None
    from pykafka_broker.testing.security_spec import SecuritySpec

    return SecuritySpec(protocol, users, acls, mechanisms, client_auth, host)


class ProcessWatch(Protocol):
    """An onlooker of a broker's process, which records what comes to each new one."""

    def ending(self, how: str) -> None:
        """Hear that the process is about to be ended. how: "stop" or "kill"."""

    def started(self) -> None:
        """Hear that a process has started."""


class KafkaBroker(Controlled):
    """A broker on a free port of the loopback interface, in a separate process.

    Its control API is open, with an operation for each method. Its groups have short heartbeat intervals. Use it with
    `with`, started or not, or call `start` and `close`; `stop`, `kill` and `restart` keep data and port. `async with`
    gives an `AsyncKafkaBroker`, whose methods of these names are awaited.

    Args:
        config: Kafka's broker configs (`{"log.retention.ms": 1000}`; Kafka's documentation, "Broker Configs"), with
            values as text, numbers, booleans or lists.
        allow_unknown_config: accept configs that no release of Kafka knows; otherwise they raise ValueError.
        data_dir: the data directory; None for a temporary directory, which `close` removes.
        host: the address to listen on.
        port: the port to listen on; 0 for a free port.
        start_timeout_s: seconds to wait for the start.
        log_level: at "debug" the log has every request.
        quick_groups: False for Kafka's heartbeat intervals; `config` wins in any case.
        emulate: the release of Kafka that clients see, "2.8", from 0.8 on; by default the newest.
        strict: False to do some things sooner than Kafka does (docs/old-releases.md).
        security: "ssl", "sasl_plaintext" or "sasl_ssl" (docs/security.md).
        users: names, or names with passwords (`{"alice": "secret"}`); `client_config` has the settings for a login.
        acls: rights as sentences (`["alice may read topic orders"]`).
        mechanisms: the SASL mechanisms.
        client_auth: whether clients need certificates: "required", "requested" or "none".
        schema_registry: start a schema registry at `schema_registry_url` (docs/schema-registry.md).
        history: write down what clients produce, fetch and commit, for `check` (docs/checking.md).
        in_process: run the broker in the test's own process, in a thread, or with `async with` on the test's loop
            (docs/in-process.md).
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        start_timeout_s: float = 30,
        log_level: str = "info",
        quick_groups: bool = True,
        emulate: str | None = None,
        strict: bool = True,
        security: str | None = None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
        mechanisms: Iterable[str] | None = None,
        client_auth: str | None = None,
        schema_registry: bool = False,
        history: bool = False,
        in_process: bool = False,
        allow_unknown_config: bool = False,
    ) -> None:
        self.config = config_texts(config)
        self.allow_unknown_config = allow_unknown_config
        if self.config and not allow_unknown_config:
            check_known(self.config)
        check_release(emulate)
        check_type("port", port, int, "a number, 0 for one that is free")
        check_timeout(start_timeout_s, "start_timeout_s")
        if log_level not in LOG_LEVELS:
            raise ValueError(f"log_level must be one of {', '.join(LOG_LEVELS)}, not {log_level!r}")
        self.host = host
        self._wanted_port = self._port = port
        self.start_timeout_s = start_timeout_s
        self.log_level = log_level
        self.quick_groups = quick_groups
        self.emulate = emulate
        self.strict = strict
        self.schema_registry = schema_registry
        self._schema_registry_url = ""
        self._security = security_of(host, security, users, acls, mechanisms, client_auth)
        if self._security is not None and "listeners" in self.config:
            raise ValueError("security=... makes the listener itself: leave out the config listeners, or configure all")
        self._inner_listener = ""
        check_directory("data_dir", data_dir)
        parent = memory_directory() if in_process and "TMPDIR" not in os.environ else None
        check_directory("the directory of temporary files", parent or tempfile.gettempdir())
        self._directory = Path(tempfile.mkdtemp(prefix="pykafka-broker-", dir=parent))
        self.data_dir = Path(next(iter(self._configured_dirs), None) or data_dir or self._directory / "data")
        self.log_path = self._directory / "broker.log"
        self.history_path = self._directory / "history" if history else None
        self.in_process = in_process
        self.loop: asyncio.AbstractEventLoop | None = None  # where a broker in the process runs; None for a thread
        self._process: subprocess.Popen[bytes] | BrokerInProcess | None = None
        self._started_by = os.getpid()
        self._given_up = False  # until the next `kill`: a start that is under way is to end
        self._control: ControlClient | None = None
        self._control_at, self._control_nodes = "127.0.0.1:0", ""
        self._node_id, self._sides = 0, list[frozenset[int]]()  # of a cluster, and of its network
        self._watch: ProcessWatch | None = None
        self._recorder: BrokerRecorder | None = None
        self._own_directory()

    def _own_directory(self) -> None:
        """Tie the temporary directory to the life of the object."""
        self._cleanup = weakref.finalize(self, _remove, file_path(str(self._directory)), os.getpid())

    def _join(self, inner_listener: str, security: SecuritySpec | None) -> None:
        """Give a node of a cluster a listener for the other nodes, and the security of the cluster."""
        self._inner_listener, self._security = inner_listener, security

    def _know(self, nodes: Mapping[int, str], node_id: int, sides: list[frozenset[int]]) -> None:
        """Give a node of a cluster the addresses of all nodes' control APIs, with its own, and the sides of the
        network, which change.
        """
        self._control_at = nodes[node_id]
        self._node_id, self._sides = node_id, sides
        self._control_nodes = ",".join(f"{other}={address}" for other, address in nodes.items() if other != node_id)

    @property
    def _configured_dirs(self) -> list[str]:
        """Return the data directories in `config`."""
        dirs = self.config.get("log.dirs", self.config.get("log.dir"))
        return [] if dirs is None else listed(dirs)

    def __repr__(self) -> str:
        where = "in this process" if self.in_process else f"pid {self.pid}" if self._process is not None else ""
        state = where if self.running else "not running"
        return f"<KafkaBroker at {self._address}, {state}>" if self._port else f"<KafkaBroker, {state}>"

    @property
    def port(self) -> int:
        """The port of the broker. Raises BrokerError before a start without a given port."""
        if not self._port:
            raise BrokerError("the broker has no address yet: start it first, by `with` or start()")
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`. Raises BrokerError as `port` does."""
        return address_text(self.host, self.port)

    @property
    def _address(self) -> str:
        """Return the address, with port 0 for a port still to be chosen."""
        return address_text(self.host, self._port)

    @property
    def control(self) -> ControlClient:
        if self._control is None or self._process is None:
            raise BrokerError("the broker is not started: use `with`, or start()")
        # A child that was forked can't ask for the process: it is not the child's own.
        if self._started_by == os.getpid() and (ended := self._process.poll()) is not None:
            raise BrokerError(f"the broker is not running: it ended with exit code {ended}")
        return self._control

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, for a serializer's `schema.registry.url`."""
        if not self._schema_registry_url:
            raise BrokerError("there is no schema registry: make the broker with schema_registry=True, and start it")
        return self._schema_registry_url

    @property
    def pid(self) -> int:
        """The id of the process, or of the last process after its end."""
        if self._process is None:
            raise BrokerError("the broker was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The end of the broker's log, restarts included."""
        return self.log_since(0)

    @property
    def log_size(self) -> int:
        """Bytes logged so far, for `log_since`."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log_since(self, size: int) -> str:
        """Return the log after the first `size` bytes, at most the last 16 kB."""
        with contextlib.suppress(FileNotFoundError), self.log_path.open("rb") as file:
            file.seek(max(size, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def start_recording(self) -> RecordingState:
        """Record all requests and answers from now on, whole, after the topics, records and offsets that are there.
        Kills and restarts are in the recording, too.
        """
        found = super().start_recording()
        if not self._inner_listener:  # of a cluster's node other nodes have parts, too
            from pykafka_broker.testing.broker_recording import BrokerRecorder

            self._watch = self._recorder = BrokerRecorder(self)
        return found

    def save_recording(self, path: str | os.PathLike[str]) -> RecordingState:
        """Write the recording into a file for `pykafka-broker replay`, and stop recording.

        Raises:
            ControlError: nothing is recorded.
        """
        if self._recorder is None:
            return super().save_recording(path)
        found = self._recorder.save(path)  # with OSError it is kept, to be saved elsewhere
        self._watch = self._recorder = None
        return found

    def start(self) -> Self:
        """Start the process and wait until clients may connect."""
        __tracebackhide__ = True  # a failed start is shown at the test's own line
        self._check_may_start()
        self._started_by = os.getpid()
        if self._security is not None:
            self._write_security(self._security)
        if self.in_process:
            self._start_in_process()
        else:
            self._start_process()
        if self._watch is not None:
            self._watch.started()
        if own := next((side for side in self._sides if self._node_id in side), None):
            self.cut_off(sorted(frozenset[int]().union(*self._sides) - own))
        return self

    def _check_may_start(self) -> None:
        __tracebackhide__ = True
        if self.running:
            raise BrokerError("the broker is already running")
        if not self._cleanup.alive:
            raise BrokerError("the broker is closed")

    def _start_process(self) -> None:
        __tracebackhide__ = True
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                # Ctrl-C is for the tests: a debugger continues, and clients can be closed. Linux with autogroups shares
                # out CPU by session: in the session of a test's own load a broker would starve.
                creationflags=CREATION_FLAGS,
                start_new_session=True,
            )
        try:
            self._check_goes_on()
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def _check_goes_on(self) -> None:
        """Look, once there is a process that could be killed, whether it was to be killed before."""
        if self._given_up:
            raise BrokerError("the start was given up")

    def _start_in_process(self) -> None:
        __tracebackhide__ = True
        process = self._begin_in_process()
        try:
            self._check_goes_on()
            self._take_lines(process, process.await_ready(self.start_timeout_s))
        except BaseException:
            self.kill()
            raise

    @property
    def _starts_on_loop(self) -> bool:
        """Whether nothing in a start blocks the loop that the broker is going to run on."""
        in_this_loop = self.in_process and self.loop is not None
        return in_this_loop and self._security is None and self._watch is None and not self._sides

    async def _start_on_loop(self) -> None:
        """Start as `start` does, on `loop`, which runs here, with no thread that waits."""
        __tracebackhide__ = True
        self._check_may_start()
        process = self._begin_in_process()
        try:
            self._take_lines(process, await process.ready(self.start_timeout_s))
        except BaseException:
            await process.end()
            raise

    def _begin_in_process(self) -> BrokerInProcess:
        from pykafka_broker.testing.in_process import BrokerInProcess

        if self.loop is not None and not self.loop.is_running():
            self.loop = None  # it has ended with an earlier test
        process = BrokerInProcess(self._options(), str(self.log_path), self.log_level)
        process.start(self.loop)
        self._process = process  # from now on it can be killed, by another thread too
        weakref.finalize(self, process.kill)
        return process

    def _take_lines(self, process: BrokerInProcess, lines: Mapping[str, str] | None) -> None:
        """Take the addresses that a broker in this process tells. Raises BrokerError for one that does not serve."""
        __tracebackhide__ = True
        if lines is None:
            raise BrokerError(f"the broker was not ready within {self.start_timeout_s} s\n{self.log}")
        if process.poll() is not None:
            raise BrokerError(f"the broker ended with exit code {process.poll()}\n{self.log}")
        self._take_control(lines[CONTROL])
        self._schema_registry_url = lines.get(SCHEMA_REGISTRY, "")
        self._take_address(lines[READY])

    def _command(self) -> list[str]:
        # -P: modules in the current directory belong to the tests, not to the broker
        command = [sys.executable, "-P", "-m", "pykafka_broker", "--stop-on-stdin-close"]
        options = self._options()
        if isinstance(file := options.pop("properties"), str):
            command.append(file)
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            if value is True:
                command.append(flag)
            elif isinstance(value, list):
                command += [word for each in value for word in (flag, each)]
            elif isinstance(value, str):
                command += [flag, value]
        return command

    def _options(self) -> Options:
        """Return the options of the command that make the broker what it is."""
        overrides = [f"{name}={value}" for name, value in self.config.items()]
        listen = []
        if self._security is not None or self._inner_listener:
            name = "PLAINTEXT" if self._security is None else self._security.listener
            own = f"{name}://{self._address}"
            overrides.insert(0, f"listeners={','.join(filter(None, (own, self._inner_listener)))}")
        elif "listeners" not in self.config:
            listen.append(self._address)
        registry = self._schema_registry_url.removeprefix("http://") or "127.0.0.1:0"
        return {
            "properties": None if self._security is None else str(self._properties),
            "log_level": self.log_level,
            "remove_with_parent": str(self._directory),  # a killed process can't remove its directory
            "quick_groups": self.quick_groups,
            "emulate": self.emulate,
            "strict": self.strict,
            "control": self._control_at if self._control is None else self._control.url.removeprefix("http://"),
            "control_nodes": self._control_nodes or None,
            "history": None if self.history_path is None else str(self.history_path),
            "record": self._watch is not None,
            "schema_registry": registry if self.schema_registry else None,
            "listen": listen,
            "data_dir": None if self._configured_dirs else str(self.data_dir),
            "override": overrides,
        }

    @property
    def _certificates(self) -> Path:
        return self._directory / "security"

    @property
    def _properties(self) -> Path:
        """Write secrets to a file of settings: a command line is visible to all users."""
        return self._directory / "security.properties"

    def _write_security(self, security: SecuritySpec) -> None:
        from pykafka_broker.config.properties import format_properties

        config = security.write(self._certificates)
        self._properties.touch(mode=0o600)
        self._properties.write_text(format_properties(config), encoding="latin-1")
        security.write_first_records(Path(self.config.get("metadata.log.dir", self.data_dir)), self.emulate)

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client: "confluent", "kafka-python", "aiokafka", "java", "spark" or
        "schema-registry".

        Args:
            user: the user of the login; by default the first one.
            mechanism: the SASL mechanism of the login; by default the first one.

            Producer(broker.client_config("confluent"))
            KafkaConsumer("topic", **broker.client_config("kafka-python", user="alice"))
            spark.readStream.format("kafka").options(**broker.client_config("spark", mechanism="SCRAM-SHA-512"))
            SchemaRegistryClient(broker.client_config("schema-registry"))
        """
        if client == "schema-registry":
            return {"url": self.schema_registry_url}
        if self._security is None and (user is not None or mechanism is not None):
            raise ValueError("this broker has no users: make it with security=... and users=...")
        login = None if self._security is None else self._security.login(self._certificates, user, mechanism)
        return client_settings(client, self.bootstrap_servers, login)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        __tracebackhide__ = True
        deadline = time.monotonic() + self.start_timeout_s
        output = _Output(process)
        self._take_control(self._await_line(output, CONTROL, deadline))
        if self.schema_registry:
            self._schema_registry_url = self._await_line(output, SCHEMA_REGISTRY, deadline)
        self._take_address(self._await_line(output, READY, deadline))

    def _take_control(self, url: str) -> None:
        if self._control is not None:
            self._control.is_of_the_past = True
        self._control = ControlClient(url)

    def _take_address(self, told: str) -> None:
        host, port = split_address(told.partition(",")[0])
        self._port = int(port)
        if host not in ("0.0.0.0", "::"):
            self.host = host

    def _await_line(self, output: _Output, begin: str, deadline: float) -> str:
        """Return the rest of the line of standard output that begins so; others may have printed lines before it."""
        __tracebackhide__ = True
        while (line := output.line(deadline)) is not None:
            if line.startswith(begin):
                return line.removeprefix(begin).strip()
            if not line:
                raise BrokerError(f"the broker ended with exit code {output.process.wait()}\n{self.log}")
        raise BrokerError(f"the broker was not ready within {self.start_timeout_s} s\n{self.log}")

    def stop(self, timeout: float = 30) -> None:
        """End the broker as SIGTERM does: everything is flushed and marked as cleanly shut down."""
        check_timeout(timeout)
        if self._watch is not None and self.running:
            self._watch.ending("stop")
        self._end(STOP, timeout)

    def kill(self) -> None:
        """End the broker as kill -9 does."""
        if self._watch is not None and self.running:
            self._watch.ending("kill")
        self._end(KILL, 10)
        self._given_up = False

    def give_up(self) -> None:
        """End a cancelled start from another thread: send SIGKILL to its process, at once or when there is one, and do
        not wait. `kill` follows.
        """
        self._given_up = True
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop and start the broker on the same port and data."""
        __tracebackhide__ = True
        self.stop()
        self.start()

    @contextlib.contextmanager
    def _suspended(self) -> Iterator[None]:
        """Let the process stand still, between two of its instructions; one in the test's, between two turns."""
        assert self._process is not None
        if self.in_process:
            running: Any = self._process
            with running.standing_still(self.start_timeout_s):
                yield
            return
        suspend(self._process)
        try:
            yield
        finally:
            resume(self._process)

    @property
    def _directories(self) -> list[Path]:
        """The directories of logs and of the metadata."""
        logs = self._configured_dirs or [str(self.data_dir)]
        return list(dict.fromkeys(map(Path, [*logs, self.config.get("metadata.log.dir", logs[0])])))

    def _make_usable(self, *, empty: bool) -> None:
        """Undo an earlier test's effects on the process, for the next test.

        A broker that was stopped, killed or closed is started again; one that was paused or whose disk was full
        continues. With `empty` it is reset as well. If it does not start on its data, or can't be reset, it begins with
        new data.
        """
        __tracebackhide__ = True
        try:
            if self.running:
                self._go_on()
            else:
                self._start_again()
            if empty:
                self.reset()
        except (BrokerError, ControlError, OSError):
            self._begin_anew()

    def _go_on(self) -> None:
        assert self._process is not None
        if not self.in_process:
            resume(self._process)
        self.unpause()
        self.free_disk()

    def _start_again(self) -> None:
        if not self._cleanup.alive:
            self._directory.mkdir()
            self._own_directory()
        self.start()

    def _begin_anew(self) -> None:
        """Start on other ports and without data. A directory named by a test is not removed."""
        self.kill()
        if self.data_dir.is_relative_to(self._directory):
            shutil.rmtree(file_path(str(self.data_dir)), ignore_errors=True)
        if self.history_path is not None:
            self.history_path.unlink(missing_ok=True)
        self._port, self._control, self._schema_registry_url = self._wanted_port, None, ""
        self.start()

    def fork(self) -> KafkaBroker:
        """Start another broker with the present state, on a new port and with new data directories; `close` ends the
        fork.
        """
        own = {"listeners", "advertised.listeners", "log.dirs", "log.dir", "metadata.log.dir"}
        options = (
            *("host", "start_timeout_s", "log_level", "quick_groups"),
            *("emulate", "strict", "schema_registry", "in_process"),
        )
        fork = KafkaBroker(
            {name: value for name, value in self.config.items() if name not in own},
            allow_unknown_config=True,
            history=self.history_path is not None,
            **{name: getattr(self, name) for name in options},
        )
        fork._security = self._security
        images = self.control.call("POST", "/fork")["directories"]
        folders = [fork.data_dir, *(fork.data_dir.with_name(f"data-{number}") for number in range(2, len(images) + 1))]
        for image, folder in zip(images, folders, strict=True):
            shutil.move(file_path(str(image)), file_path(str(folder)))
        if (count := len(self._configured_dirs)) > 1:
            fork.config["log.dirs"] = ",".join(map(str, folders[:count]))
        if (metadata := self.config.get("metadata.log.dir")) is not None:
            fork.config["metadata.log.dir"] = str(folders[self._directories.index(Path(metadata))])
        return fork.start()

    def close(self) -> None:
        """Stop the broker and remove temporary files."""
        self._watch = self._recorder = None  # what was not saved by now is not wanted
        try:
            self.stop()
        finally:
            self._cleanup()

    def _end(self, number: int, timeout_s: float) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            self._send(process, number)
        try:
            process.wait(timeout_s)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired, TimeoutError):  # a thread that hangs can't be ended
                process.wait(timeout_s)
            name = signal.Signals(number).name
            raise BrokerError(f"the broker did not end within {timeout_s} s of {name}\n{self.log}") from error
        finally:
            if self._control is not None:
                self._control.close()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _send(self, process: subprocess.Popen[bytes] | BrokerInProcess, number: int) -> None:
        try:
            process.send_signal(number)
        except OSError:  # Windows: CTRL_BREAK needs a console that both processes have
            if process.poll() is not None:
                return
            if number != STOP or process.stdin is None:
                raise
            process.stdin.write(STOP_LINE)
            process.stdin.flush()

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        return self if self.running else self.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(f"log of the broker at {self._address}:\n{self.log}")
        self.close()

    async def __aenter__(self) -> AsyncKafkaBroker:
        __tracebackhide__ = True
        # Imported here: asyncio would be most of this module's import time for tests without an event loop.
        from pykafka_broker.testing.asynchronous import AsyncKafkaBroker

        return await AsyncKafkaBroker.of(self).__aenter__()

    async def __aexit__(self, *failure: Any) -> None:
        from pykafka_broker.testing.asynchronous import AsyncKafkaBroker

        await AsyncKafkaBroker.of(self).__aexit__(*failure)


def _remove(directory: str, owner: int) -> None:
    """Remove the directory of a broker. A process that was forked has the object too, and not the broker."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Return the environment without settings of a broker: a test's broker has the test's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    inherited.pop("CLUSTER_ID", None)
    root = str(Path(__file__).parents[2])  # starts the same package as imported here
    if root in (sysconfig.get_path("purelib"), site.getusersitepackages()):
        return inherited  # found without PYTHONPATH, where other packages would come before the standard library
    return inherited | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


class _Output:
    """The lines of a process up to the ready line, read by a thread: `select` of Windows does not wait for pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(process.stdout,), name="output of a broker", daemon=True).start()

    def _read(self, pipe: IO[bytes]) -> None:
        line = "at first"
        while line and not line.startswith(READY):
            line = pipe.readline().decode(errors="replace")  # others may have printed anything before
            self._lines.put(line)

    def line(self, deadline: float) -> str | None:
        """Return the next line, None after the deadline; a process that has ended leaves an empty one."""
        try:
            return self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
