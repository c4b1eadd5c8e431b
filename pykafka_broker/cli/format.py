"""`pykafka-broker format`, `info`, `random-uuid`, `version-mapping` and `feature-dependencies`: kafka-storage.

Rule: options, output and exit codes are kafka-storage's. The settings are those with which the broker would start: the
file, and `KAFKA_...` variables over it. A mistake is one line on standard error, and exit code 1.
"""

from __future__ import annotations

import argparse
import os
import string
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from pykafka_broker.cli.settings import UsageError, static_settings
from pykafka_broker.cluster.formatting import (
    FormatError,
    FormatRequest,
    StorageFormatter,
    StorageNode,
    feature_dependencies,
    feature_levels,
    info,
    initial_voters,
    metadata_version,
    version_mapping,
)
from pykafka_broker.config import BrokerConfig, ConfigError, ConfigErrors
from pykafka_broker.log.checkpoints import id_text
from pykafka_broker.log.filesystem import OsFileSystem

REFUSED = 1
_SALT_LETTERS = string.ascii_lowercase + string.digits
_SALT_LENGTH = 25


class _Parser(argparse.ArgumentParser):
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
    except OSError as error:
        print(f"{error.filename or 'a directory'}: {error.strerror}", file=sys.stderr)
    return REFUSED


def parser() -> argparse.ArgumentParser:
    whole = _Parser(prog="pykafka-broker", description="Prepare data directories, as kafka-storage does.")
    commands = whole.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("info", help="what there is in the data directories of this node")
    command.add_argument("--config", "-c", required=True, metavar="FILE", help="server.properties")
    command.set_defaults(run=_info)

    command = commands.add_parser("format", help="make the data directories of a new node")
    command.set_defaults(run=_format)
    command.add_argument("--config", "-c", required=True, metavar="FILE", help="server.properties")
    command.add_argument("--cluster-id", "-t", required=True, metavar="ID", help="the cluster; random-uuid makes one")
    command.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="USER",
        help="a user from the first start on, such as 'SCRAM-SHA-512=[name=alice,password=alice-secret]'",
    )
    command.add_argument(
        "--ignore-formatted", "-g", action="store_true", help="leave formatted directories as they are"
    )
    command.add_argument("--release-version", "-r", metavar="RELEASE", help="have the features of that release")
    command.add_argument("--feature", "-f", action="append", default=[], metavar="FEATURE=LEVEL", help="one feature")
    quorum = command.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="this node is the first voter of the quorum")
    quorum.add_argument("--no-initial-controllers", "-N", action="store_true", help="it learns later who is")
    quorum.add_argument(
        "--initial-controllers", "-I", metavar="VOTERS", help="all voters: ID@HOST:PORT:DIRECTORY_ID,..."
    )

    command = commands.add_parser("random-uuid", help="make an id for a cluster")
    command.set_defaults(run=_random_uuid)

    command = commands.add_parser("version-mapping", help="the features of a release")
    command.add_argument("--release-version", "-r", metavar="RELEASE", help="the latest one where nothing is given")
    command.set_defaults(run=_version_mapping)

    command = commands.add_parser("feature-dependencies", help="what a feature needs")
    command.add_argument("--feature", "-f", action="append", required=True, metavar="FEATURE=LEVEL")
    command.set_defaults(run=_feature_dependencies)
    return whole


def _format(options: argparse.Namespace) -> int:
    node = _node(options.config)
    release = None if options.release_version is None else metadata_version(options.release_version)
    request = FormatRequest(
        options.cluster_id,
        options.add_scram,
        options.ignore_formatted,
        release,
        feature_levels(options.feature),
        options.standalone,
        options.no_initial_controllers,
        None if options.initial_controllers is None else initial_voters(options.initial_controllers),
    )
    from pykafka_broker.server.serving import new_uuid

    now = int(time.time() * 1000)
    formatter = StorageFormatter(OsFileSystem(), node, request, now=now, new_uuid=new_uuid, new_salt=_new_salt)
    for line in formatter.run():
        print(line)
    return 0


def _info(options: argparse.Namespace) -> int:
    lines, well = info(OsFileSystem(), _node(options.config))
    print("\n".join(lines))
    return 0 if well else REFUSED


def _random_uuid(options: argparse.Namespace) -> int:
    from pykafka_broker.server.serving import new_uuid

    print(id_text(new_uuid()))
    return 0


def _version_mapping(options: argparse.Namespace) -> int:
    for line in version_mapping(options.release_version):
        print(line)
    return 0


def _feature_dependencies(options: argparse.Namespace) -> int:
    for text in options.feature:
        name, equals, number = text.partition("=")
        if not equals:
            raise FormatError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            )
        if not number.removeprefix("-").isdecimal():
            raise FormatError(f"Invalid version format: {number} for feature {name}")
        for line in feature_dependencies(name, int(number)):
            print(line)
    return 0


def _node(path: str) -> StorageNode:
    """Return the node of a file of settings, with the defaults of a broker's start."""
    config = BrokerConfig(static_settings(path, os.environ, [], [], None))
    directories = [os.path.abspath(each) for each in config.data_dirs]
    return StorageNode(
        config.node,
        directories,
        os.path.abspath(config.metadata_log_dir) if config.metadata_log_dir else directories[0],
        "controller" in (config.process_roles or ()),
        bool(config["controller.quorum.voters"]),
        _controller_listener(config),
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
