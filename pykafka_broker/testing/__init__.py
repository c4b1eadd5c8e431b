"""A broker for tests, in a process of its own.

Rule: nothing is left behind. The process ends with the `with` block, and with its parent however that ends; the
temporary data directory goes with it.

    from pykafka_broker.testing import KafkaBroker

    with KafkaBroker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
"""

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.controlled import RemoteBroker
from pykafka_broker.testing.process import BrokerError, KafkaBroker
from pykafka_broker.testing.record import Record
from pykafka_broker.testing.waits import NotInTime, NotSo

__all__ = ["BrokerError", "ControlError", "KafkaBroker", "NotInTime", "NotSo", "Record", "RemoteBroker"]
