"""A broker for `unittest`.

Apart from `testing/__init__.py`, since no other test should wait for the import of `unittest`.

Rule: one broker for the test cases of a class, and each test finds it empty.

    class Orders(KafkaBrokerTestCase):
        broker_config = {"num.partitions": 3}

        def test_an_order_arrives(self) -> None:
            self.broker.create_topic("orders")
"""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any, ClassVar

from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.process import KafkaBroker

__tracebackhide__ = told_to_the_test


class KafkaBrokerTestCase(unittest.TestCase):
    """A test case with `broker`, a running `KafkaBroker`.

    `broker_config` are its configs, `broker_options` the other arguments of `KafkaBroker`; without `reset_broker` tests
    of the class see the data of earlier tests.
    """

    broker: ClassVar[KafkaBroker]
    broker_config: ClassVar[Mapping[str, object]] = {}
    broker_options: ClassVar[Mapping[str, Any]] = {}
    reset_broker: ClassVar[bool] = True
    _used: ClassVar[bool] = False

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.broker = cls.enterClassContext(KafkaBroker(cls.broker_config, **cls.broker_options))
        cls._used = False

    def setUp(self) -> None:
        super().setUp()
        if self._used:
            self.broker._make_usable(empty=self.reset_broker)
        type(self)._used = True
