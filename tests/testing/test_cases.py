"""A broker for `unittest`."""

from __future__ import annotations

import unittest

from pykafka_broker.testing import KafkaBrokerTestCase


def run(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_each_test_of_a_class_finds_the_broker_empty() -> None:
    seen = []

    class Case(KafkaBrokerTestCase):
        broker_config = {"num.partitions": 3}

        def _use(self) -> None:
            seen.append((self.broker.pid, self.broker.topics()))
            assert self.broker.config == {"num.partitions": "3"}
            self.broker.create_topic("t")

        def test_one(self) -> None:
            self._use()

        def test_two(self) -> None:
            self._use()

    result = run(Case)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])
    assert len({pid for pid, _ in seen}) == 1
    assert [topics for _, topics in seen] == [[], []]
    assert not Case.broker.running
