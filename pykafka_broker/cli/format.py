"""`pykafka-broker format`, `info`, `random-uuid`, `version-mapping` and `feature-dependencies`: kafka-storage.

Rule: options, output and exit codes are kafka-storage's. The settings are those with which the broker would start: the
file, and `KAFKA_...` variables over it. A mistake is told on standard error, with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import string
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from pykafka_broker.cli.commands import SUMMARIES
from pykafka_broker.cli.settings import UsageError, own_options, static_settings
from pykafka_broker.cluster.formatting import (
    FormatError,
    FormatRequest,
    KnownLevels,
    StorageFormatter,
    StorageNode,
    feature_level,
    info,
    initial_voters,
)
from pykafka_broker.config import BrokerConfig, ConfigError, ConfigErrors
from pykafka_broker.config.extensions import EMULATE
from pykafka_broker.config.values import java_integer
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.protocol.runtime import new_uuid, uuid_text
from pykafka_broker.tools import OptionParser

REFUSED = 1
_SALT_LETTERS = string.ascii_lowercase + string.digits
_SALT_LENGTH = 25


class _Parser(OptionParser):
    """A parser with exit code 1 for wrong options."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(REFUSED, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with the command. Returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        return status
    except (FormatError, UsageError, ConfigError, ConfigErrors) as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{error.filename or 'a directory'}: {error.strerror}", file=sys.stderr)
    return REFUSED


def parser() -> argparse.ArgumentParser:
    whole = _Parser(prog="pykafka-broker", description="Prepare data directories, as kafka-storage does.")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)

    parsers = {name: commands.add_parser(name, help=text) for name, text in SUMMARIES["storage"].items()}
    for name, run in _ACTIONS.items():
        parsers[name].set_defaults(run=run)
    for name in ("info", "format"):
        parsers[name].option("--config -c FILE", "server.properties", required=True)
    for name in ("info", "format", "version-mapping", "feature-dependencies"):
        parsers[name].option(
            "--emulate RELEASE", "as kafka-storage of this release does, for a broker that passes for it"
        )
    command = parsers["format"]
    command.option("--cluster-id -t ID", "the cluster id; random-uuid prints a new one", required=True)
    user = "a user from the first start on, such as 'SCRAM-SHA-512=[name=alice,password=alice-secret]'"
    command.option("--add-scram -S USER ...", user, default=[])
    command.option("--ignore-formatted -g", "leave formatted directories as they are")
    command.option("--release-version -r RELEASE", "enable the features of this release")
    command.option("--feature -f FEATURE=LEVEL ...", "enable one feature", default=[])
    quorum = command.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="this node is the first voter of the quorum")
    later = "this node learns the voters of the quorum later"
    quorum.add_argument("--no-initial-controllers", "-N", action="store_true", help=later)
    voters = "all voters of the quorum: ID@HOST:PORT:DIRECTORY_ID,..."
    quorum.add_argument("--initial-controllers", "-I", metavar="VOTERS", help=voters)
    parsers["version-mapping"].option("--release-version -r RELEASE", "the release; by default the latest")
    parsers["feature-dependencies"].option("--feature -f FEATURE=LEVEL ...", "the feature", required=True)
    return whole


def _format(options: argparse.Namespace) -> int:
    node = _node(options)
    named = options.release_version
    release = None if named is None else node.levels.metadata_version(named)
    request = FormatRequest(
        options.cluster_id,
        options.add_scram,
        options.ignore_formatted,
        release,
        dict(map(feature_level, options.feature)),  # the last one for a name holds
        options.standalone,
        options.no_initial_controllers,
        None if options.initial_controllers is None else initial_voters(options.initial_controllers),
    )

    now = int(time.time() * 1000)
    formatter = StorageFormatter(OsFileSystem(), node, request, now=now, new_uuid=new_uuid, new_salt=_new_salt)
    for line in formatter.run():
        print(line)
    return 0


def _info(options: argparse.Namespace) -> int:
    lines, well = info(OsFileSystem(), _node(options))
    print("\n".join(lines))
    return 0 if well else REFUSED


def _random_uuid(options: argparse.Namespace) -> int:
    print(uuid_text(new_uuid()))
    return 0


def _version_mapping(options: argparse.Namespace) -> int:
    for line in _levels(options).version_mapping(options.release_version):
        print(line)
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    levels = _levels(options)
    for text in options.feature:
        name, equals, level = text.partition("=")
        if not equals:
            raise FormatError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            )
        try:
            number = java_integer(level.strip(), bits=15)
        except ValueError:
            raise FormatError(f"Invalid version format: {level} for feature {name}") from None
        for line in levels.feature_dependencies(name, number):
            print(line)
    return 0


_ACTIONS = {
    "info": _info,
    "format": _format,
    "random-uuid": _random_uuid,
    "version-mapping": _version_mapping,
    "feature-dependencies": _feature_dependencies,
}


def _levels(options: argparse.Namespace) -> KnownLevels:
    return KnownLevels.of(BrokerConfig({EMULATE: options.emulate or ""}))


def _node(options: argparse.Namespace) -> StorageNode:
    """Return the node of a file of settings, with the defaults of a broker's start."""
    config = BrokerConfig(static_settings(options.config, os.environ, own_options(options.emulate, False), [], None))
    directories = [os.path.abspath(each) for each in config.data_dirs]
    return StorageNode(
        config.node,
        directories,
        os.path.abspath(config.metadata_log_dir) if config.metadata_log_dir else directories[0],
        "controller" in (config.process_roles or ()),
        bool(config["controller.quorum.voters"]),
        _controller_listener(config),
        KnownLevels.of(config),
        config.is_of_4_4,
    )


def _controller_listener(config: BrokerConfig) -> tuple[str, str, int] | None:
    from pykafka_broker.server.listeners import parse_endpoint

    names = [name.upper() for name in config.controller_listener_names or ()]
    endpoints = [
        parse_endpoint("listeners", text) for text in (*(config.advertised_listeners or ()), *config.listeners)
    ]
    for name, host, port in endpoints:
        if names and name == names[0]:
            return name, host or "localhost", port
    return None


def _new_salt() -> bytes:
    """Return a salt as Kafka's tools make salts: letters and digits, which can be copied."""
    return "".join(_SALT_LETTERS[byte % len(_SALT_LETTERS)] for byte in os.urandom(_SALT_LENGTH)).encode()
