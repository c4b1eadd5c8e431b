"""A broker for tests, in a separate process or within the test's.

Rule: nothing is left behind. A process ends with the `with` block, and with its parent however that ends; the
temporary data directory goes with it.

    from pykafka_broker.testing import KafkaBroker

    with KafkaBroker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, RecordsDiffer, WaitTimeout
from pykafka_broker.testing.history import AnomaliesFound
from pykafka_broker.testing.process import KafkaBroker
from pykafka_broker.testing.record import ANY, NewRecord, Record
from pykafka_broker.testing.remote import RemoteBroker

if TYPE_CHECKING:
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker, AsyncRemoteBroker
    from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster
    from pykafka_broker.testing.cases import KafkaBrokerTestCase
    from pykafka_broker.testing.cluster import KafkaCluster
    from pykafka_broker.testing.masking import mask_recording
    from pykafka_broker.testing.playing import PlayedRecording, compare_recordings, recorded_events, replay_recording
    from pykafka_broker.testing.simulation import SimulatedCluster, SimulatedLoop, simulate

__all__ = [
    "ANY",
    "AnomaliesFound",
    "AsyncKafkaBroker",
    "AsyncKafkaCluster",
    "AsyncRemoteBroker",
    "BrokerError",
    "ControlError",
    "KafkaBroker",
    "KafkaBrokerTestCase",
    "KafkaCluster",
    "NewRecord",
    "Record",
    "RecordsDiffer",
    "RemoteBroker",
    "PlayedRecording",
    "SimulatedCluster",
    "SimulatedLoop",
    "WaitTimeout",
    "compare_recordings",
    "mask_recording",
    "recorded_events",
    "replay_recording",
    "simulate",
]


for _error in (AnomaliesFound, BrokerError, ControlError, RecordsDiffer, WaitTimeout):
    _error.__module__ = __name__  # a report shows the name to import, with more room for the message

_ON_FIRST_USE = {  # imports that most tests don't need: asyncio, unittest, clusters, simulation
    "AsyncKafkaBroker": "asynchronous",
    "AsyncKafkaCluster": "asynchronous_cluster",
    "AsyncRemoteBroker": "asynchronous",
    "KafkaBrokerTestCase": "cases",
    "KafkaCluster": "cluster",
    "PlayedRecording": "playing",
    "SimulatedCluster": "simulation",
    "SimulatedLoop": "simulation",
    "compare_recordings": "playing",
    "mask_recording": "masking",
    "recorded_events": "playing",
    "replay_recording": "playing",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    """Import a name on the first use."""
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
