"""The types on the face of the testing package: they are those of the control API, and none of them says nothing."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from typing import NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from pykafka_broker import testing
from pykafka_broker.control import groups_view
from pykafka_broker.control.api import cluster, faults, incidents, requests, state, topics, waits
from pykafka_broker.control.traffic import readable
from pykafka_broker.testing import answers
from pykafka_broker.testing.aio import cluster_nodes as aio_cluster_nodes
from pykafka_broker.testing.aio import controlled as aio_controlled
from pykafka_broker.testing.aio import traffic as aio_traffic
from pykafka_broker.testing.cluster_nodes import ClusterClock, ClusterFault, ClusterFaults
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.traffic import Fault, Faults

ANSWERS = {
    answers.Topic: topics.TopicAnswer,
    answers.PartitionState: cluster.PartitionStateAnswer,
    answers.LogSize: incidents.LogSizeAnswer,
    answers.Member: groups_view.MemberAnswer,
    answers.CommittedPartition: groups_view.CommittedPartitionAnswer,
    answers.GroupSummary: groups_view.GroupSummaryAnswer,
    answers.Group: groups_view.GroupDetails,
    answers.Transaction: waits.TransactionDetails,
    answers.Connection: requests.Connected,
    answers.SeenRequest: readable.SeenRequestAnswer,
    answers.FaultState: faults.FaultAnswer,
    answers.ChaosState: faults.ChaosStateAnswer,
    answers.Snapshot: state.SnapshotAnswer,
    answers.Node: cluster.NodeAnswer,
    answers.ClusterState: cluster.Cluster,
}
CLASSES = (
    testing.KafkaBroker,
    testing.KafkaCluster,
    testing.RemoteBroker,
    testing.AsyncKafkaBroker,
    testing.AsyncKafkaCluster,
    testing.AsyncRemoteBroker,
    testing.Record,
    testing.NewRecord,
    *(BrokerClock, Faults, Fault, ClusterClock, ClusterFaults, ClusterFault),
    *(aio_controlled.AsyncBrokerClock, aio_traffic.AsyncFaults, aio_traffic.AsyncFault),
    *(aio_cluster_nodes.AsyncClusterClock, aio_cluster_nodes.AsyncClusterFaults),
    aio_cluster_nodes.AsyncClusterFault,
)
UNTYPED = {
    "client_config": "keyword arguments of a client's library, whose types are its own",
    "json": "what a value says as JSON",
}
TELLS_NOTHING = {"Any", "object", "dict", "list", "tuple", "Mapping", "Sequence"}


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: str(kind.__name__))
def test_an_answer_has_the_fields_of_the_control_api(kind: type) -> None:
    told = {field.name: field.type for field in dataclasses.fields(ANSWERS[kind])}
    typed = get_type_hints(kind, include_extras=True)
    added = {name for name, each in typed.items() if name not in told and get_origin(each) is NotRequired}
    assert typed.keys() - added == told.keys()
    assert added <= {"node_id", "nodes"}, "what a cluster adds"
    hints = get_type_hints(ANSWERS[kind])
    for name in told:
        assert _shape(typed[name]) == _shape(hints[name]), name


def test_every_answer_is_compared() -> None:
    assert {each for each in vars(answers).values() if is_typeddict(each)} == ANSWERS.keys()


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_no_type_on_the_face_of_a_public_class_says_nothing(kind: type) -> None:
    says_nothing = []
    for name, annotation, is_result in _annotations(kind):
        names = {each.id for each in ast.walk(ast.parse(annotation)) if isinstance(each, ast.Name)}
        if "Any" in names or (is_result and (annotation in TELLS_NOTHING or "object" in names)):
            says_nothing.append(f"{name}: {annotation}")
    assert says_nothing == []


def test_a_method_that_is_excused_is_there() -> None:
    assert {name for kind in CLASSES for name in UNTYPED if hasattr(kind, name)} == UNTYPED.keys()


def _annotations(kind: type) -> Iterator[tuple[str, str, bool]]:
    """Yield the name of each annotated thing that a test may use, its annotation, and whether it is a result."""
    for name in sorted(name for each in kind.__mro__[:-1] for name in vars(each)):
        member = inspect.getattr_static(kind, name)
        member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name in UNTYPED or (name.startswith("_") and name != "__init__") or not inspect.isfunction(member):
            continue
        signature = inspect.signature(member)
        assert signature.return_annotation is not signature.empty, f"{name} does not say what it returns"
        yield f"{name}()", signature.return_annotation or "None", True
        for each in list(signature.parameters.values())[1:]:
            yield f"{name}({each.name})", each.annotation, False
    if dataclasses.is_dataclass(kind):
        yield from ((field.name, str(field.type), True) for field in dataclasses.fields(kind))


def _shape(kind: object) -> object:
    """Return a type without what JSON does not tell: names of classes, limits of values, whether a field is there."""
    if get_origin(kind) is NotRequired:
        return _shape(get_args(kind)[0])
    if kind in ANSWERS or dataclasses.is_dataclass(kind):
        return dict
    if arguments := get_args(kind):
        return (str(get_origin(kind)), *sorted(map(str, map(_shape, arguments))))
    return kind
