"""`pykafka-broker [server.properties] [options]`: reads the settings, reports mistakes, serves."""

from __future__ import annotations

import argparse
import contextlib
import errno
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pykafka_broker import __version__
from pykafka_broker.addresses import address_text
from pykafka_broker.broker.setup import Setup
from pykafka_broker.cli.commands import (
    BAD_USAGE,
    SUMMARIES,
    CommandParser,
    error_line,
    is_like_a_command,
    what_was_meant,
)
from pykafka_broker.cli.log_lines import log_to_stderr
from pykafka_broker.cli.settings import (
    ABSENT_MEMBER_MS,
    DEVELOPMENT,
    KEYS_OF_OPTIONS,
    UsageError,
    cluster_id_of,
    own_options,
    static_settings,
)
from pykafka_broker.config import BrokerConfig, ConfigError, ConfigErrors, UnusableError
from pykafka_broker.config.effects import has_no_effect, refusals
from pykafka_broker.config.problems import problems
from pykafka_broker.tools import TOOLS, drop_output

if TYPE_CHECKING:
    from pykafka_broker.server import Announce
    from pykafka_broker.server.serving import ProcessExtension
    from pykafka_broker.server.signals import StopSignals

log = logging.getLogger("pykafka_broker")

CANNOT_START = 1
STOP_WORD = b"stop"
_LOOK_S = 1.0
ALL_INTERFACES = ("0.0.0.0", "::")
_WITH_CONTROL = {
    "--control-nodes": "the page that --control serves",
    "--control-token-file": "clients of the control API",
    "--history": "the checks of the control API",
    "--schema-registry-url": "the records that --control shows",
}


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker",
        usage="\n       ".join(f"pykafka-broker {words:<32}  {text}" for words, text in _usages()) + "\n",
        description="A Kafka broker. Without a command, serve clients, by default on 127.0.0.1:9092.",
        epilog="Each command has its own --help. Kafka's tools (topics, acls and others): pykafka-broker help",
    )
    command.add_argument("properties", nargs="?", metavar="server.properties", help="settings, in Kafka's file format")
    listen = "listen here: PORT alone is on 127.0.0.1, :PORT on all interfaces, port 0 a free port; may be repeated"
    command.option("--listen HOST:PORT ...", listen, default=[])
    command.option("--data-dir DIR", "keep logs and metadata here (log.dirs)")
    command.option("--override KEY=VALUE ...", "one setting; may be repeated", default=[])
    ready = "write HOST:PORT to this file as soon as clients can connect, and remove it at the end"
    command.option("--ready-file FILE", ready)
    command.option("--ephemeral", "use a temporary data directory and remove it at the end; implies --quick-groups")
    command.option("--quick-groups", "short heartbeat intervals of groups, for tests")
    command.option("--emulate RELEASE", "answer clients as this release of Kafka does, 0.8 to 4.4")
    command.option("--strict", "do exactly as Kafka where this broker is otherwise faster or more convenient")
    command.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"), help="on stderr")
    command.option("--stop-on-stdin-close", "stop when standard input ends")
    command.option("--remove-with-parent DIR", argparse.SUPPRESS)  # for pykafka_broker.testing
    command.option("--control HOST:PORT", "serve the control API and its web page here; port 0 takes a free port")
    command.option("--control-nodes NODES", "other nodes' control APIs, for a page of all: 2=HOST:PORT,...")
    command.option("--history FILE", "write down here what clients produce, fetch and commit, for check")
    command.option("--record", argparse.SUPPRESS)  # for pykafka_broker.testing: everything that comes to the process
    command.option("--control-token-file FILE", "the file with the token that clients of the control API must send")
    command.option("--schema-registry HOST:PORT", "serve a schema registry here; port 0 takes a free port")
    command.option("--schema-registry-user-file FILE", "the file with the NAME:PASSWORD of the schema registry")
    command.option("--schema-registry-url URL", "decode records with the schemas of the registry at this URL")
    command.add_argument("--version", action="version", version=f"pykafka-broker {__version__}")
    return command


def _usages() -> Iterator[tuple[str, str]]:
    yield "[server.properties] [options]", "serve until SIGTERM or Ctrl-C"
    for group in SUMMARIES.values():
        if group is not TOOLS:
            yield from group.items()


def main(arguments: Sequence[str], signals: StopSignals) -> int:
    options = parser().parse_args(arguments)
    log_to_stderr(options.log_level.upper())
    wrong = _contradictions(options)
    if wrong:
        return complain(wrong)
    orphaned = threading.Event()
    if options.stop_on_stdin_close:
        threading.Thread(target=_stop_at_end_of_input, args=(orphaned, signals), daemon=True).start()
    try:
        with _data_dir(options.data_dir, options.ephemeral) as data_dir:
            return _run(options, data_dir, signals)
    except OSError as error:  # no place for a temporary directory
        return cannot_start(error)
    finally:
        if options.remove_with_parent is not None and orphaned.is_set():
            import shutil

            shutil.rmtree(options.remove_with_parent, ignore_errors=True)


def _contradictions(options: argparse.Namespace) -> list[str]:
    wrong = []
    if options.ephemeral and options.data_dir is not None:
        wrong.append("--ephemeral uses a temporary directory: leave out --data-dir")
    if options.schema_registry_url is not None and options.schema_registry is not None:
        wrong.append("--schema-registry serves a registry of its own: leave out --schema-registry-url")
    if options.schema_registry_user_file is not None and not (options.schema_registry or options.schema_registry_url):
        wrong.append("--schema-registry-user-file is for a schema registry: add --schema-registry or its URL")
    if options.control is None:
        wrong += [f"{each} is for {use}: add --control" for each, use in _WITH_CONTROL.items() if _value(options, each)]
    overridden = {pair.partition("=")[0].strip() for pair in options.override}
    for option, names in KEYS_OF_OPTIONS.items():
        if _value(options, option):
            wrong += [f"{option} wins over {name}: leave out --override {name}" for name in names if name in overridden]
    return wrong


def _value(options: argparse.Namespace, option: str) -> Any:
    return getattr(options, option.removeprefix("--").replace("-", "_"))


class Mistakes(Exception):
    """Mistakes in options and settings, in lines for their user."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class BrokerPlan(NamedTuple):
    """Everything that a broker is made of."""

    config: BrokerConfig
    setup: Setup
    beside: ProcessExtension | None


def planned(
    options: argparse.Namespace,
    data_dir: str | None,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> BrokerPlan:
    """Return the broker that options and environment describe; `say` is told the addresses beside the listeners.

    Raises Mistakes.
    """
    quick_groups = options.quick_groups or options.ephemeral
    try:
        own = own_options(options.emulate, options.strict)
        check_file(options.properties)
        settings = static_settings(
            options.properties, environment, [*options.override, *own], options.listen, data_dir, quick_groups
        )
        config = BrokerConfig(settings)
        beside = _own_services(options, say, is_temporary=_are_temporary(config, options))
        if options.schema_registry is not None:
            beside = _schema_registry(options, say, beside)
        if config.zookeeper_connect:
            beside = _zookeeper(config, beside)
    except UsageError as error:
        raise Mistakes([str(error)]) from None
    except ConfigErrors as errors:
        raise Mistakes([*map(str, errors.errors)]) from None
    wrong = [*problems(config), *refusals(config)]
    if wrong:
        raise Mistakes(wrong)
    return BrokerPlan(config, Setup(cluster_id_of(environment), ABSENT_MEMBER_MS if quick_groups else None), beside)


def _are_temporary(config: BrokerConfig, options: argparse.Namespace) -> bool:
    """Return whether all data end with the process: a power cut then has nothing to take."""
    paths = [*config.data_dirs, config.metadata_log_dir or config.data_dirs[0]]
    removed = options.remove_with_parent
    return options.ephemeral or (removed is not None and all(each.startswith(f"{removed}{os.sep}") for each in paths))


def _run(options: argparse.Namespace, data_dir: str | None, signals: StopSignals) -> int:
    try:
        config, setup, beside = planned(options, data_dir, os.environ, _say)
    except Mistakes as mistakes:
        return complain(mistakes.lines)
    warn(config)
    ready_file = None if options.ready_file is None else _ReadyFile(options.ready_file)
    from pykafka_broker.log.log_directory import LogDirectoryError
    from pykafka_broker.server import run

    try:
        return run(config, on_ready=_announcer(ready_file), signals=signals, setup=setup, beside=beside)
    except (UnusableError, LogDirectoryError, OSError) as error:
        return cannot_start(error)
    except ConfigError as error:
        return complain([str(error)])
    finally:
        if ready_file is not None:
            ready_file.close()


def _own_services(
    options: argparse.Namespace, say: Callable[[str], None], *, is_temporary: bool
) -> ProcessExtension | None:
    """Return the control API, or without one what keeps temporary data from being synced."""
    if options.control is not None:
        return _control(options, say, syncs=not is_temporary)
    if not is_temporary:
        return None
    from pykafka_broker.server.serving import TemporaryData

    return TemporaryData()


def _control(options: argparse.Namespace, say: Callable[[str], None], *, syncs: bool) -> ProcessExtension:
    from pykafka_broker.cli.addresses import control_address, control_nodes
    from pykafka_broker.control.door import ControlExtension

    address = control_address(options.control, options.control_token_file)
    decode = None
    if options.schema_registry_url is not None:
        from pykafka_broker.cli.addresses import schemas_elsewhere
        from pykafka_broker.registry.decoding import Decoder

        decode = Decoder(schemas_elsewhere(options.schema_registry_url, options.schema_registry_user_file)).decode
    nodes = control_nodes(options.control_nodes or "")
    return ControlExtension(
        address,
        lambda url: say(f"control on {url}"),
        decode,
        options.history,
        syncs=syncs,
        nodes=nodes,
        records=options.record,
    )


def _schema_registry(
    options: argparse.Namespace, say: Callable[[str], None], other: ProcessExtension | None
) -> ProcessExtension:
    from pykafka_broker.cli.addresses import registry_address
    from pykafka_broker.registry.api import RegistryExtension

    address = registry_address(options.schema_registry, options.schema_registry_user_file)
    return RegistryExtension(address, lambda url: say(f"schema registry on {url}"), other)


def _zookeeper(config: BrokerConfig, other: ProcessExtension | None) -> ProcessExtension:
    """Return the extension that shows the broker in a ZooKeeper. Raises Mistakes without its library."""
    try:
        from pykafka_broker.zookeeper.extension import ZooKeeperExtension
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "kazoo":
            raise
        wrong = "zookeeper.connect needs the library kazoo, of the extra zookeeper"
        raise Mistakes([f"Invalid value {config.zookeeper_connect} for configuration {wrong}"]) from None
    return ZooKeeperExtension(config, other)


def check_file(path: str | None) -> None:
    """Check the word in the place of the file for a mistyped command. Raises UsageError."""
    if path is not None and is_like_a_command(path) and not os.path.exists(path):
        raise UsageError(f"{path} is neither a command nor a file: {what_was_meant(path)}")


def cannot_start(error: Exception) -> int:
    print(f"pykafka-broker: cannot start: {reason_of(error)}", file=sys.stderr)
    return CANNOT_START


def reason_of(error: Exception) -> str:
    """Return a failure of the start in words, with the file where it has one."""
    told = error_line(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{told} ({_holder_of(told)}; port 0 takes a free port)"
    return told


def _holder_of(told: str) -> str:
    """Return what has a port that is taken.

    It is a listener, or a connection, whose client was given that port. A listener of this broker is closed by now.
    """
    address = re.search(r"(\S+):([0-9]+): ", told)
    if address is not None:
        import socket

        try:
            socket.create_connection((address[1].strip("[]"), int(address[2])), timeout=_LOOK_S).close()
        except ConnectionRefusedError:
            return (
                "no other program listens there: two addresses of this broker are the same, or it is the port of a "
                "connection of another program and may soon be free"
            )
        except (OSError, OverflowError):
            pass
    return "another program listens there"


def complain(lines: Iterator[str] | Sequence[str]) -> int:
    for line in lines:
        print(f"pykafka-broker: {line}", file=sys.stderr)
    return BAD_USAGE


def warn(config: BrokerConfig) -> None:
    """Log a line for each unknown config, and a single line for all configs without effect."""
    for name in config.unknown:
        from pykafka_broker.config.registry import broker_keys
        from pykafka_broker.control.problems import did_you_mean

        log.warning("unknown config %s is ignored%s", name, did_you_mean(name, broker_keys()))
    idle = [name for name in config.static if has_no_effect(name) and name not in DEVELOPMENT]
    if idle:
        log.info("accepted without effect: %s", ", ".join(sorted(idle)))


def _data_dir(given: str | None, ephemeral: bool) -> contextlib.AbstractContextManager[str | None]:
    if not ephemeral:
        return contextlib.nullcontext(given)
    import tempfile

    if "," in (parent := tempfile.gettempdir()):
        raise OSError(errno.EINVAL, "a comma separates directories in log.dirs, so TMPDIR may have none", parent)
    return tempfile.TemporaryDirectory(prefix="pykafka-broker-", ignore_cleanup_errors=True)


class _ReadyFile:
    """The file of `--ready-file`, which has the addresses while clients may connect.

    An earlier run's file names an address without a listener, so it goes before the start.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._written = b""
        with contextlib.suppress(OSError):
            os.remove(path)

    def write(self, addresses: str) -> None:
        """Write the addresses: no reader sees half of them, and no half file is left after an error."""
        unfinished = f"{self._path}.{os.getpid()}"
        self._written = f"{addresses}\n".encode("ascii")  # a shell would keep a CR
        try:
            with open(unfinished, "wb") as file:
                file.write(self._written)
            os.replace(unfinished, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
            raise OSError(error.errno, error.strerror, self._path) from error

    def close(self) -> None:
        """Remove the file, unless another broker has written its own addresses into it."""
        with contextlib.suppress(OSError):
            with open(self._path, "rb") as file:
                found = file.read()
            if found == self._written:
                os.remove(self._path)


def _announcer(ready_file: _ReadyFile | None) -> Announce:
    """Return a function to print the listeners in the form of `bootstrap.servers`."""

    def announce(bound: Sequence[tuple[str, int]]) -> None:
        addresses = addresses_of(bound)
        for (host, _), address in zip(bound, addresses, strict=True):
            if host in ALL_INTERFACES:
                log.info(
                    "%s is open on all network interfaces: everybody who reaches this machine can connect", address
                )
        if ready_file is not None:
            ready_file.write(",".join(addresses))
        _say(f"listening on {','.join(addresses)}")

    return announce


def addresses_of(bound: Sequence[tuple[str, int]]) -> list[str]:
    """Return listeners in the form of `bootstrap.servers`."""
    return [address_text(*each) for each in bound]


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError as error:
        drop_output()
        raise OSError(error.errno, error.strerror, "standard output") from error


def _stop_at_end_of_input(orphaned: threading.Event, signals: StopSignals) -> None:
    """Stop the broker when standard input ends, or at the word `STOP_WORD`.

    A pipe from the parent ends when the parent ends, however that happens; so no broker outlives its test run. A parent
    that can send no signal writes the word.
    """
    with contextlib.suppress(OSError):
        while given := os.read(0, 4096):
            if STOP_WORD in given:
                signals.stop()
    orphaned.set()
    signals.stop()
