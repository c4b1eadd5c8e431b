"""The types on the face of the testing package: the answers of the control API are all there, and each type says what
a value is."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from typing import is_typeddict

import pytest

from pykafka_broker import testing
from pykafka_broker.control import answers as control_answers
from pykafka_broker.testing import answers
from pykafka_broker.testing.aio import cluster_traffic as aio_cluster_traffic
from pykafka_broker.testing.aio import controlled as aio_controlled
from pykafka_broker.testing.aio import traffic as aio_traffic
from pykafka_broker.testing.cluster_traffic import ClusterClock, ClusterFault, ClusterFaults
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.traffic import Fault, Faults

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
    *(aio_cluster_traffic.AsyncClusterClock, aio_cluster_traffic.AsyncClusterFaults),
    aio_cluster_traffic.AsyncClusterFault,
)
UNTYPED = {
    "client_config": "keyword arguments of a client's library, whose types are its own",
    "json": "what a value says as JSON",
}
TELLS_NOTHING = {"Any", "object", "dict", "list", "tuple", "Mapping", "Sequence"}


def test_every_answer_of_the_control_api_has_a_name_for_tests() -> None:
    shown = [kind for name in answers.__all__ if is_typeddict(kind := getattr(answers, name))]
    for answer in filter(is_typeddict, vars(control_answers).values()):
        assert any(answer.__annotations__.items() <= kind.__annotations__.items() for kind in shown), answer


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


def test_an_error_has_the_name_to_import() -> None:
    """Errors name the package as their module: a longer name would fill the last lines of pytest."""
    names = [
        name
        for name in testing.__all__
        if isinstance(each := getattr(testing, name), type) and issubclass(each, Exception)
    ]
    assert names == ["AnomaliesFound", "BrokerError", "ControlError", "RecordsDiffer", "WaitTimeout"]
    assert {getattr(testing, name).__module__ for name in names} == {"pykafka_broker.testing"}
