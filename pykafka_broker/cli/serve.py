"""`pykafka-broker [server.properties] [options]`: reads the settings, reports mistakes, serves."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pykafka_broker import __version__
from pykafka_broker.broker.setup import Setup
from pykafka_broker.cli.commands import BAD_USAGE, CommandParser
from pykafka_broker.cli.log_lines import log_to_stderr
from pykafka_broker.cli.settings import (
    ABSENT_MEMBER_MS,
    DEVELOPMENT,
    UsageError,
    cluster_id_of,
    own_options,
    static_settings,
)
from pykafka_broker.config import BrokerConfig, ConfigError, ConfigErrors, UnusableError
from pykafka_broker.config.effects import has_no_effect, refusals
from pykafka_broker.config.problems import problems
from pykafka_broker.tools import drop_output

if TYPE_CHECKING:
    from pykafka_broker.control.control import Decode
    from pykafka_broker.server import Announce
    from pykafka_broker.server.serving import ProcessExtension
    from pykafka_broker.server.signals import StopSignals

log = logging.getLogger("pykafka_broker")

CANNOT_START = 1
ALL_INTERFACES = ("0.0.0.0", "::")
USAGE = """pykafka-broker [server.properties] [options]    serve until SIGTERM or Ctrl-C
       pykafka-broker configs [options]                list every config key and its effect
       pykafka-broker log dump|verify|repair DIR       look into a data directory that no broker is using
       pykafka-broker trace [CAPTURE]                  print what clients ask and are answered
       pykafka-broker proxy --to HOST:PORT             watch and disturb the clients of another broker
       pykafka-broker cluster [options]                start several brokers and their controller
       pykafka-broker control OPERATION [options]      ask a broker's control API
       pykafka-broker seed FILE                        make the topics, records and offsets that a file names
       pykafka-broker dump                             topics, records and offsets as lines for such a file
       pykafka-broker format -c FILE -t ID [options]   make the data directories of a new node, with users in them
       pykafka-broker info -c FILE                     what there is in the data directories of a node
       pykafka-broker random-uuid                      make an id for a cluster
       pykafka-broker version-mapping [-r RELEASE]     the features of a release
       pykafka-broker feature-dependencies -f FEATURE  what a feature needs
       pykafka-broker help [COMMAND]                   all commands, Kafka's tools included, or the flags of one
       pykafka-broker completion bash|zsh|fish         a script that completes commands and flags
"""


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker",
        usage=USAGE,
        description="A Kafka broker. Without a command it serves, on 127.0.0.1:9092 where nothing is set.",
        epilog="Each command has its own --help. Kafka's tools (topics, acls and others): pykafka-broker help",
    )
    command.add_argument(
        "properties", nargs="?", metavar="server.properties", help="settings, in Kafka's own file format"
    )
    command.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="address to bind; a PORT alone is on 127.0.0.1, :PORT on all network interfaces; port 0 takes a free one; "
        "may be repeated",
    )
    command.add_argument("--data-dir", metavar="DIR", help="where logs and metadata live (log.dirs)")
    command.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="one setting; may be repeated"
    )
    command.add_argument("--ready-file", metavar="FILE", help="write HOST:PORT here as soon as clients may connect")
    command.add_argument(
        "--ephemeral",
        action="store_true",
        help="use a temporary data directory and remove it at the end; implies --quick-groups",
    )
    command.add_argument("--quick-groups", action="store_true", help="short heartbeat intervals of groups, for tests")
    command.add_argument("--emulate", metavar="RELEASE", help="pass for that release of Kafka, 0.8 to 4.3, to clients")
    command.add_argument(
        "--strict", action="store_true", help="do as Kafka what is otherwise done for speed or comfort"
    )
    command.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"), help="on stderr")
    command.add_argument("--stop-on-stdin-close", action="store_true", help="stop when standard input ends")
    command.add_argument("--remove-with-parent", metavar="DIR", help=argparse.SUPPRESS)  # for pykafka_broker.testing
    command.add_argument(
        "--control",
        metavar="HOST:PORT",
        help="open the control API there, and the page for a browser; port 0 takes a free one",
    )
    command.add_argument(
        "--control-token-file", metavar="FILE", help="the token that whoever controls the broker shows"
    )
    command.add_argument(
        "--schema-registry", metavar="HOST:PORT", help="open a schema registry there; port 0 takes a free one"
    )
    command.add_argument(
        "--schema-registry-user-file", metavar="FILE", help="the NAME:PASSWORD that is asked for there"
    )
    command.add_argument(
        "--schema-registry-url", metavar="URL", help="a registry elsewhere, to show records by its schemas"
    )
    command.add_argument("--version", action="version", version=f"pykafka-broker {__version__}")
    return command


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
            _remove(options.remove_with_parent)


def _contradictions(options: argparse.Namespace) -> list[str]:
    wrong = []
    if options.ephemeral and options.data_dir is not None:
        wrong.append("--ephemeral takes a directory of its own: leave out --data-dir")
    if options.schema_registry_url is not None and options.schema_registry is not None:
        wrong.append("--schema-registry opens a registry: leave out --schema-registry-url, which names another one")
    if options.schema_registry_url is not None and options.control is None:
        wrong.append("--schema-registry-url is for what --control shows: add that")
    return wrong


def _run(options: argparse.Namespace, data_dir: str | None, signals: StopSignals) -> int:
    quick_groups = options.quick_groups or options.ephemeral
    try:
        own = own_options(options.emulate, options.strict)
        settings = static_settings(
            options.properties, os.environ, [*options.override, *own], options.listen, data_dir, quick_groups
        )
        config = BrokerConfig(settings)
        beside = None if options.control is None else _control(options)
        if options.schema_registry is not None:
            beside = _schema_registry(options, beside)
    except UsageError as error:
        return complain([str(error)])
    except ConfigErrors as errors:
        return complain(map(str, errors.errors))
    wrong = [*problems(config), *refusals(config)]
    if wrong:
        return complain(wrong)
    warn(config)
    if options.ready_file is not None:
        with contextlib.suppress(OSError):
            os.remove(options.ready_file)  # an earlier run's file names an address without a listener
    setup = Setup(cluster_id_of(os.environ), ABSENT_MEMBER_MS if quick_groups else None)
    return serve(config, _announcer(options.ready_file), signals, setup, beside)


def _control(options: argparse.Namespace) -> ProcessExtension:
    from pykafka_broker.cli.addresses import control_address
    from pykafka_broker.control.door import ControlExtension

    address = control_address(options.control, options.control_token_file)
    decode = None if options.schema_registry_url is None else _decode(options)
    return ControlExtension(address, lambda url: _say(f"control on {url}"), decode)


def _decode(options: argparse.Namespace) -> Decode:
    from pykafka_broker.cli.addresses import schemas_elsewhere
    from pykafka_broker.registry.decoding import Decoder

    return Decoder(schemas_elsewhere(options.schema_registry_url, options.schema_registry_user_file)).decode


def _schema_registry(options: argparse.Namespace, other: ProcessExtension | None) -> ProcessExtension:
    from pykafka_broker.cli.addresses import registry_address
    from pykafka_broker.registry.opening import RegistryExtension

    address = registry_address(options.schema_registry, options.schema_registry_user_file)
    return RegistryExtension(address, lambda url: _say(f"schema registry on {url}"), other)


def serve(
    config: BrokerConfig, on_ready: Announce, signals: StopSignals, setup: Setup, beside: ProcessExtension | None = None
) -> int:
    from pykafka_broker.log.log_directory import LogDirectoryError
    from pykafka_broker.server import run

    try:
        return run(config, on_ready=on_ready, signals=signals, setup=setup, beside=beside)
    except UnusableError as error:
        return cannot_start(error)
    except ConfigError as error:
        return complain([str(error)])
    except (LogDirectoryError, OSError) as error:
        return cannot_start(error)


def cannot_start(error: Exception) -> int:
    reason = str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        reason = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    print(f"pykafka-broker: cannot start: {reason}", file=sys.stderr)
    return CANNOT_START


def complain(lines: Iterator[str] | Sequence[str]) -> int:
    for line in lines:
        print(f"pykafka-broker: {line}", file=sys.stderr)
    return BAD_USAGE


def warn(config: BrokerConfig) -> None:
    """Log a line for each unknown config, and a single line for all configs without effect."""
    for name in config.unknown:
        log.warning("unknown config %s is ignored", name)
    idle = [name for name in config.static if has_no_effect(name) and name not in DEVELOPMENT]
    if idle:
        log.info("accepted without effect: %s", ", ".join(sorted(idle)))


@contextlib.contextmanager
def _data_dir(given: str | None, ephemeral: bool) -> Iterator[str | None]:
    if not ephemeral:
        yield given
        return
    import tempfile

    path = tempfile.mkdtemp(prefix="pykafka-broker-")
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def _announcer(ready_file: str | None) -> Announce:
    """Return a function to print the listeners in the form of `bootstrap.servers`."""

    def announce(bound: Sequence[tuple[str, int]]) -> None:
        addresses = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bound]
        for (host, _), address in zip(bound, addresses, strict=True):
            if host in ALL_INTERFACES:
                log.info("%s is open on all network interfaces: who can reach this machine can connect", address)
        if ready_file is not None:
            _write_whole(ready_file, f"{','.join(addresses)}\n")
        _say(f"listening on {','.join(addresses)}")

    return announce


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError as error:
        drop_output()
        raise OSError(error.errno, error.strerror, "standard output") from error


def _write_whole(path: str, text: str) -> None:
    """Write a file as a whole: no reader sees half of the text, and no half file is left after an error."""
    unfinished = f"{path}.{os.getpid()}"
    try:
        with open(unfinished, "w", encoding="ascii") as file:
            file.write(text)
        os.replace(unfinished, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise OSError(error.errno, error.strerror, path) from error


def _stop_at_end_of_input(orphaned: threading.Event, signals: StopSignals) -> None:
    """Stop the broker when standard input ends.

    A pipe from the parent ends when the parent ends, however that happens; so no broker outlives its test run.
    """
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    orphaned.set()
    signals.stop()
