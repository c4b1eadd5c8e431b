"""Tools that are told controllers (KIP-919), and registrations of nodes: a broker is stopped, a controller made up."""

from __future__ import annotations

import re
from collections.abc import Mapping

from interop.raw import RawClient
from interop.tools.steps import Step, sorted_lines
from interop.tools.tables.acls import without_trace
from interop.tools.tables.broker_api_versions import latest
from interop.tools.tables.metadata_quorum import of_any_node
from interop.waiting import eventually
from pykafka_broker.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest

BROKERS = 3
STOPPED = 3
_MADE_UP = 109
_MOVE = '{"partitions":[{"topic":"t","partition":0,"replicas":[1]}],"version":1}'


def settle(known: Mapping[str, str]) -> None:
    """Wait until the stopped broker is fenced, and register a controller that is none."""
    with RawClient(known["controllers"]) as client:
        feature = Feature("metadata.version", 7, 33)
        listener = Listener("CONTROLLER", "localhost", 9, 0)
        request = ControllerRegistrationRequest(_MADE_UP, b"\1" * 16, False, [listener], [feature])
        assert client.call(request, 0).error_code == 0
    with RawClient(known["bootstrap"]) as client:

        def fenced() -> list[int]:
            answer = client.call(DescribeClusterRequest(include_fenced_brokers=True))
            return [each.broker_id for each in answer.brokers if each.is_fenced]

        eventually(fenced, [STOPPED], 20)


def _of_any_port(out: str) -> str:
    """Sort the lines; ports are those of the moment, and blanks in front of lines are not compared."""
    return sorted_lines(re.sub(r"127\.0\.0\.1 \d+", "ENDPOINT", out))


def _of_any_quorum(out: str) -> str:
    return of_any_order(of_any_node(out))


def of_any_order(out: str) -> str:
    """Return sorted nodes of a description of the quorum."""
    return "\n".join(" ".join(sorted(line.split())) if "Current" in line else line for line in out.splitlines())


def _cluster(*commands: str) -> list[Step]:
    return [Step("cluster", f"{{nowhere}} {_at(each)}", alike=_of_any_port, alone=True) for each in commands]


def _at(command: str) -> str:
    """Return the command with the addresses of the brokers for B and of the controllers for C."""
    words = {"B": "--bootstrap-server {bootstrap}", "C": "--bootstrap-controller {controllers}"}
    return " ".join(words.get(each, each) for each in command.split())


def _quorum(command: str) -> Step:
    return Step("metadata-quorum", f"{{nowhere}} {_at(command)}", alike=_of_any_quorum, alone=True)


STEPS: list[Step] = [
    *_cluster(
        "cluster-id B",
        "cluster-id C",
        "list-endpoints B",
        "list-endpoints C",
        "list-endpoints B --include-fenced-brokers",
        "list-endpoints C --include-fenced-brokers",
        "list-endpoints",
        "list-endpoints B C",
        "list-endpoints B --id 1",
        "list-endpoints -b {bootstrap}",
        "list-endpoints -C {controllers}",
        "list-endpoints --bootstrap-controller {bootstrap}",
        "list-endpoints --bootstrap-server {controllers}",
        "cluster-id --bootstrap-controller {bootstrap}",
        "cluster-id --bootstrap-server {controllers}",
        "cluster-id B --id 1",
        "unregister B",
        "unregister B --id",
        "unregister B --id x",
        "unregister B --id 9",
        "unregister B --id -1",
        "unregister C --id 9",
        "unregister --id 9",
        "unregister C -i 3",
        "unregister B -i 3",
        "list-endpoints B --include-fenced-brokers",
        "unregister-controller B",
        "unregister-controller B --id x",
        "unregister-controller B --id 9",
        "unregister-controller C --id 9",
        "unregister-controller B --id 101",
        "unregister-controller C --id 101",
        f"unregister-controller C -i {_MADE_UP}",
        f"unregister-controller B -i {_MADE_UP}",
        "unregister-controller B --id -1",
        "unreg B --id 9",
        "list C",
    ),
    *[
        Step("cluster", f"{{nowhere}} {_at(each)}", alike=latest)
        for each in ("api-versions C", "api-versions --bootstrap-server {controllers}")
    ],
    Step("features", f"{{nowhere}} {_at('C describe')}", alike=of_any_node),
    _quorum("C describe --status"),
    _quorum("C describe --replication"),
    _quorum(f"C remove-controller -i {_MADE_UP} -d vzdFkeVGTZq3yR5zXE_fdg"),
    _quorum(f"C remove-controller -i {_MADE_UP} -d vzdFkeVGTZq3yR5zXE_fdg --unregister"),
    _quorum(f"C remove-controller -i {_MADE_UP} -d vzdFkeVGTZq3yR5zXE_fdg --unregister --dry-run"),
    Step("acls", _at("C --list"), alike=without_trace),
    Step("configs", _at("C --describe --entity-type brokers --entity-name 1")),
    Step("configs", _at("C --describe --entity-type brokers --entity-default")),
    Step("configs", _at("C --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2")),
    Step("configs", _at("C --describe --entity-type topics --entity-name t")),
    Step("configs", _at("C --describe --entity-type users")),
    Step("reassign-partitions", _at("C --list")),
    Step(
        "reassign-partitions", f"{_at('C --cancel --reassignment-json-file')} '{{file:{_MOVE}}}'", alike=without_trace
    ),
]
IN_OUR_WORDS = {
    _cluster(each)[0].command
    for each in (
        "list-endpoints",
        "list-endpoints B C",
        "list-endpoints B --id 1",
        "cluster-id B --id 1",
        "unregister B",
        "unregister B --id",
        "unregister B --id x",
        "unregister --id 9",
        "unregister-controller B",
        "unregister-controller B --id x",
    )
}
