"""A broker for tests, in a process of its own.

Rule: nothing is left behind. The process ends with the `with` block, and with its parent however that ends; the
temporary data directory goes with it.

    from pykafka_broker.testing import KafkaBroker

    with KafkaBroker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.controlled import RemoteBroker
from pykafka_broker.testing.process import BrokerError, KafkaBroker
from pykafka_broker.testing.record import Record
from pykafka_broker.testing.waits import NotInTime, NotSo

if TYPE_CHECKING:
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker

__all__ = [
    "AsyncKafkaBroker",
    "BrokerError",
    "ControlError",
    "KafkaBroker",
    "NotInTime",
    "NotSo",
    "Record",
    "RemoteBroker",
]


def __getattr__(name: str) -> Any:
    """`AsyncKafkaBroker` on first use: it brings asyncio along, which most tests don't need."""
    if name != "AsyncKafkaBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pykafka_broker.testing.asynchronous import AsyncKafkaBroker

    return AsyncKafkaBroker
