"""`pykafka-broker cluster`: starts several brokers, to try how clients behave with a cluster.

Rule: each node is a process, and the command ends them all at its end. Standard output tells the address of each node,
then all addresses in the form that clients take. The command tells when a node has ended, and starts it again at a
signal.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence

from pykafka_broker.cli.commands import parser_for
from pykafka_broker.cli.settings import UsageError, parse_overrides
from pykafka_broker.platform import START_SIGNAL, STOP_SIGNALS
from pykafka_broker.testing.arguments import check_known
from pykafka_broker.testing.cluster import KafkaCluster
from pykafka_broker.testing.data import BrokerError
from pykafka_broker.testing.process import KafkaBroker

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
        overrides = parse_overrides(options.override)
        check_known(overrides, permission=None)
        cluster = KafkaCluster(
            options.brokers,
            racks=options.racks.split(",") if options.racks else None,
            controllers=0 if options.combined else 1,
            config=overrides,
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
    wanted = threading.Event()  # that ended nodes start again
    if START_SIGNAL is not None:
        signal.signal(START_SIGNAL, lambda *_: wanted.set())
    try:
        with cluster:
            for node_id in cluster.nodes:
                _print_node(cluster, node_id)
            print(f"listening on {cluster.bootstrap_servers}", flush=True)
            ended: set[int] = set()
            while not stopped.wait(_LOOK_S):  # on Windows a signal is handled between two waits
                ended = _look_after(cluster, ended, wanted)
    except BrokerError as error:
        print(f"pykafka-broker cluster: cannot start: {error}", file=sys.stderr)
        return CANNOT_START
    except OSError as error:
        where = options.host if error.filename is None else error.filename
        print(f"pykafka-broker cluster: cannot start: {where}: {error.strerror}", file=sys.stderr)
        return CANNOT_START
    return 0


def _look_after(cluster: KafkaCluster, told: set[int], wanted: threading.Event) -> set[int]:
    """Tell which nodes have ended since, and start the ended ones again where that is wanted.

    Args:
        told: the nodes that had ended before.

    Returns:
        The nodes that have ended by now.
    """
    ended = {node_id for node_id, node in cluster.nodes.items() if not node.running}
    for node_id in sorted(ended - told):
        node = cluster.nodes[node_id]
        again = f"; kill -{START_SIGNAL.name.removeprefix('SIG')} {os.getpid()} starts it again" if START_SIGNAL else ""
        print(f"{_kind(cluster, node)} {node_id} has ended, its log is {node.log_path}{again}", file=sys.stderr)
    if not wanted.is_set():
        return ended
    wanted.clear()
    for node_id in sorted(ended, key=lambda each: (cluster.nodes[each] is not cluster.controller, each)):
        try:
            cluster.nodes[node_id].start()
        except (BrokerError, OSError) as error:
            print(f"pykafka-broker cluster: node {node_id} does not start: {error}", file=sys.stderr)
        else:
            ended.discard(node_id)
            _print_node(cluster, node_id)
    return ended


def _print_node(cluster: KafkaCluster, node_id: int) -> None:
    node = cluster.nodes[node_id]
    at = f"at {node.bootstrap_servers}, control on {node.control_url}, pid {node.pid}"
    print(f"{_kind(cluster, node)} {node_id} {at}", flush=True)


def _kind(cluster: KafkaCluster, node: KafkaBroker) -> str:
    return "broker" if node in cluster.brokers else "controller"
