"""metadata-quorum and features on quorums of Kafka's controllers, which change while they are asked.

Rule: Kafka's script goes through all steps, and then ours from the same state; both have to print the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from interop.java_tools import JavaTools, Outcome
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind
from interop.tools.steps import Step, run_java, run_ours
from interop.waiting import eventually
from pykafka_broker.client.properties import read_properties

pytestmark = [pytest.mark.java, pytest.mark.ours_only, pytest.mark.slow]

_AT = "--bootstrap-controller {controllers}"
_REMOVE = "remove-controller --controller-id 102 --controller-directory-id"
_DYNAMIC = (
    "{at} describe --status",
    "{at} describe --replication",
    "{at} --command-config {file-of-102} add-controller --dry-run",
    "{at} --command-config {file-of-102} add-controller",
    "{at} --command-config {file-of-102} add-controller",
    "{at} --command-config {file-of-101} add-controller",
    "--bootstrap-controller {second} describe --status",
    "{at} describe --status",
    "{at} describe --replication",
    f"{{at}} {_REMOVE} {{directory-of-101}}",
    "{at} remove-controller --controller-id 7 --controller-directory-id {directory-of-102}",
    f"{{at}} {_REMOVE} {{directory-of-102}} --dry-run",
    f"--bootstrap-controller {{second}} {_REMOVE} {{directory-of-102}}",
    "{at} remove-controller -i 7 -d {directory-of-102} --unregister",
    f"{{at}} {_REMOVE} {{directory-of-102}} --unregister",
    f"{{at}} {_REMOVE} {{directory-of-102}} --unregister",
    "{at} remove-controller --controller-id 101 --controller-directory-id {directory-of-101}",
    "{at} describe --status",
)
_STATIC = (
    "features {at} upgrade --feature kraft.version=1 --dry-run",
    "features {at} upgrade --feature kraft.version=2",
    "features {at} upgrade --feature kraft.version=1",
    "features {at} upgrade --feature kraft.version=1",
    "features {at} describe",
    "metadata-quorum {at} describe --status",
    "features {at} downgrade --feature kraft.version=0",
    "features {at} downgrade --feature kraft.version=0 --unsafe",
    "features {at} disable --feature kraft.version",
    "metadata-quorum {at} --command-config {file-of-101} add-controller",
)


def _known(cluster: KafkaCluster) -> dict[str, str]:
    """Return the values of the names in braces that commands hold."""
    found = {"controllers": cluster.bootstrap_controllers, "second": cluster.controllers[-1].address}
    for node in cluster.controllers:
        found[f"file-of-{node.id}"] = str(node.properties)
        meta = node.directory / "data" / "meta.properties"
        found[f"directory-of-{node.id}"] = read_properties(str(meta))["directory.id"]
    return found


def _step(command: str, known: Mapping[str, str]) -> Step:
    tool, _, rest = command.partition(" ")
    return Step(tool, rest.replace("{at}", _AT), known=known)


def _told(outcome: Outcome, step: Step) -> tuple[int, list[str]]:
    """Return the status and the lines of a tool, without offsets, epochs and times."""
    lines = step.normal(outcome.out)
    return outcome.status, [re.sub(r"(?<![\w.])\d+(?![\w.])", "N", each) for each in lines]


def test_controllers_come_and_go(java: JavaTools, tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "cluster", controllers=[THEIRS, THEIRS], dynamic=True) as cluster:
        known = _known(cluster)
        steps = [_step(f"metadata-quorum {each}", known) for each in _DYNAMIC]

        def observers() -> bool:
            seen = run_java(java, steps[0], "", tmp_path)
            return '"id": 102' in seen.out.partition("CurrentObservers")[2]

        eventually(observers, True, 30)
        theirs = [_told(run_java(java, each, "", tmp_path), each) for each in steps]
        eventually(observers, True, 30)
        ours = [_told(run_ours(each, "", tmp_path), each) for each in steps]
    assert [status for status, _ in theirs] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0]
    assert ours == theirs


def test_a_static_voter_becomes_a_dynamic_one(java: JavaTools, tmp_path: Path) -> None:
    """Both tools turn a static quorum into a dynamic one. That is final, so each tool has a quorum of its own."""
    told: list[list[tuple[int, list[str]]]] = []
    tools: list[Callable[[Step], Outcome]] = [
        lambda step: run_java(java, step, "", tmp_path),
        lambda step: run_ours(step, "", tmp_path),
    ]
    for run in tools:
        with KafkaCluster(tmp_path / f"cluster-{len(told)}", controllers=[THEIRS]) as cluster:
            known = _known(cluster)
            status = _step("metadata-quorum {at} describe --status", known)
            eventually(partial(_succeeds, run, status), True, 30)
            told.append([_told(run(step), step) for step in (_step(each, known) for each in _STATIC)])
    theirs, ours = told
    assert [status for status, _ in theirs] == [0, 1, 0, 0, 0, 0, 1, 1, 1, 1]
    assert ours == theirs


def _succeeds(run: Callable[[Step], Outcome], step: Step) -> bool:
    return run(step).status == 0


@pytest.mark.parametrize("follower", [OURS, THEIRS], ids=["ours", "theirs"])
def test_our_static_voter_becomes_one_and_brokers_follow(follower: Kind, tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "cluster", controllers=[OURS], brokers=[follower]) as cluster:
        known = _known(cluster)

        def run(step: Step) -> Outcome:
            return run_ours(step, cluster.bootstrap_servers, tmp_path)

        def tool(command: str) -> Outcome:
            return run(_step(command, known))

        eventually(lambda: tool("topics --create --topic before").status, 0, 30)
        assert tool("features {at} upgrade --feature kraft.version=1").out == "kraft.version was upgraded to 1.\n"
        told = tool("metadata-quorum {at} describe --status").out
        assert f'"directoryId": "{known["directory-of-101"]}", "endpoints": ["CONTROLLER://' in told
        again = tool("metadata-quorum {at} --command-config {file-of-101} add-controller")
        assert (again.status, "is already part of the set of voters" in again.err) == (1, True)
        for number, restarted in enumerate((None, cluster.controllers[0], cluster.brokers[0])):
            if restarted is not None:
                restarted.restart()
            create = f"topics --create --topic after-{number} --if-not-exists"
            eventually(partial(_succeeds, run, _step(create, known)), True, 30)
        assert tool("topics --list").out.split() == ["after-0", "after-1", "after-2", "before"]
        assert "FinalizedVersionLevel: 1" in _line(tool("features describe").out, "kraft.version")


def _line(out: str, feature: str) -> str:
    return " ".join(next(each for each in out.splitlines() if feature in each).split())
