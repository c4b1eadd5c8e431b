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

from pykafka_broker.cli.commands import parser_for
from pykafka_broker.cli.settings import UsageError, parse_overrides
from pykafka_broker.platform import STOP_SIGNALS
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.data import BrokerError

CANNOT_START = 1
_LOOK_S = 0.5


def parser() -> argparse.ArgumentParser:
    command = parser_for("cluster")
    command.option("--brokers N", "how many brokers (3)", type=int, default=3)
    command.add_argument("--host", default="127.0.0.1", help="where all brokers listen (127.0.0.1)")
    port = "port of broker 1; the next brokers have the next ports (9092); 0 takes free ports"
    command.add_argument("--port", type=int, default=9092, help=port)
    command.option("--racks A,B,...", "the rack of each broker")
    command.option("--data-dir DIR", "keep the data here; by default in a temporary directory")
    command.option("--override KEY=VALUE ...", "a setting of all brokers", default=[])
    command.option("--combined", "broker 1 is the controller too, which saves a process")
    command.option("--history", "write down what clients produce, fetch and commit, for check")
    return command


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `cluster`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    try:
        cluster = KafkaCluster(
            options.brokers,
            racks=options.racks.split(",") if options.racks else None,
            controllers=0 if options.combined else 1,
            config=parse_overrides(options.override),
            quick=False,
            history=options.history,
            data_dir=options.data_dir,
            host=options.host,
            port=options.port,
        )
    except (UsageError, ValueError) as error:
        own.error(str(error))
    stopped = threading.Event()
    for number in STOP_SIGNALS:
        if number.name != "SIGHUP":
            signal.signal(number, lambda *_: stopped.set())
    try:
        with cluster:
            for node_id, node in cluster.nodes.items():
                kind = "broker" if node in cluster.brokers else "controller"
                print(f"{kind} {node_id} at {node.bootstrap_servers}, control on {node.control_url}, pid {node.pid}")
            print(f"listening on {cluster.bootstrap_servers}", flush=True)
            while not stopped.wait(_LOOK_S):
                pass  # on Windows a signal is handled between two waits
    except BrokerError as error:
        print(f"pykafka-broker cluster: cannot start: {error}", file=sys.stderr)
        return CANNOT_START
    except OSError as error:
        where = options.host if error.filename is None else error.filename
        print(f"pykafka-broker cluster: cannot start: {where}: {error.strerror}", file=sys.stderr)
        return CANNOT_START
    return 0
