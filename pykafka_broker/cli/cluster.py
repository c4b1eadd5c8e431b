"""`pykafka-broker cluster`: starts several brokers, to try how clients behave with a cluster.

Rule: each node is a process, and the command ends them all at its end. Standard output tells the address of each node,
and in its last line all addresses in the form that clients take.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.data import BrokerError

CANNOT_START = 1


def parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker cluster", description="Start several brokers and their controller, until Ctrl-C."
    )
    command.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (3)")
    command.add_argument("--host", default="127.0.0.1", help="where all of them listen (127.0.0.1)")
    command.add_argument(
        "--port", type=int, default=9092, help="that of broker 1, the others have the next ones (9092); 0: free ones"
    )
    command.add_argument("--racks", metavar="A,B,...", help="the rack of each broker")
    command.add_argument("--data-dir", metavar="DIR", help="where they keep their data; a temporary place if not given")
    command.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of all brokers"
    )
    command.add_argument("--combined", action="store_true", help="broker 1 is the controller too: one process less")
    return command


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `cluster`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    config = {}
    for text in options.override:
        name, equals, value = text.partition("=")
        if not equals:
            own.error(f"--override {text}: it must be KEY=VALUE")
        config[name] = value
    try:
        cluster = KafkaCluster(
            options.brokers,
            racks=options.racks.split(",") if options.racks else None,
            controllers=0 if options.combined else 1,
            config=config,
            quick=False,
            data_dir=options.data_dir,
            host=options.host,
            port=options.port,
        )
    except ValueError as error:
        own.error(str(error))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with cluster:
            for node_id, node in cluster.nodes.items():
                kind = "broker" if node in cluster.brokers else "controller"
                print(f"{kind} {node_id} at {node.bootstrap_servers}, control on {node.control_url}, pid {node.pid}")
            print(f"listening on {cluster.bootstrap_servers}", flush=True)
            stopped.wait()
    except (BrokerError, OSError) as error:
        print(f"pykafka-broker cluster: cannot start: {error}", file=sys.stderr)
        return CANNOT_START
    return 0
