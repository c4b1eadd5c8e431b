"""Each client reacts to each fault as docs/faults.md says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.fault_clients import Aiokafka, Client, Confluent, Java, KafkaPython
from interop.fault_programs import franz_go, kafkajs
from interop.fault_table import ROWS, Row, recorded, usual_outcome
from interop.java_transactions import JavaClients
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only
PYTHON = [KafkaPython(), Confluent(), Aiokafka()]
PROGRAMS = [franz_go(), kafkajs()]
FEW = [row for row in ROWS if row.says in ("Produce: NOT_LEADER_OR_FOLLOWER", "Heartbeat: UNKNOWN_MEMBER_ID")]
REST = [row for row in ROWS if row not in FEW]


def when_slow(row: Row) -> Any:
    return pytest.param(row, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def faulty() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def java(java: JavaClients) -> Java:
    return Java(java)


@pytest.mark.parametrize("client", PYTHON, ids=lambda client: client.name)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
def test_a_client_reacts_as_the_table_says(faulty: KafkaBroker, client: Client, row: Row) -> None:
    usual = recorded()[row.says, client.name]
    assert usual_outcome(faulty, client, row, usual) == usual


@pytest.mark.parametrize("client", PROGRAMS, ids=lambda client: client.name)
@pytest.mark.parametrize("row", [*FEW, *map(when_slow, REST)], ids=lambda row: row.says)
def test_a_program_reacts_as_the_table_says(faulty: KafkaBroker, client: Client, row: Row) -> None:
    usual = recorded()[row.says, client.name]
    assert usual_outcome(faulty, client, row, usual) == usual


@pytest.mark.java
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
def test_java_reacts_as_the_table_says(faulty: KafkaBroker, java: Java, row: Row) -> None:
    usual = recorded()[row.says, java.name]
    assert usual_outcome(faulty, java, row, usual) == usual
