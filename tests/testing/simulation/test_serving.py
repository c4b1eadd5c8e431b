"""Listeners with logins in a simulated cluster, and the same seed with them."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from pykafka_broker.testing.simulation import SimulatedCluster, simulate

LIMIT_S = 300.0
USERS = {"alice": "secret", "bob": "other"}


async def through_a_login(mechanism: str, seed: int, brokers: int = 2) -> str:
    """Write and read as alice, on brokers one of which is killed; return the trace."""
    async with SimulatedCluster(brokers=brokers, seed=seed, security="sasl_plaintext", users=USERS) as cluster:
        await cluster.create_topic("orders")
        login = cluster.client_config("aiokafka", "alice", mechanism)
        async with AIOKafkaProducer(**login, acks="all") as producer:  # or the record may end with its leader
            await producer.send_and_wait("orders", b"1")
            cluster.leader("orders").kill()
            if brokers == 1:
                cluster.broker(1).start()
            await producer.send_and_wait("orders", b"2")
        assert {each["principal"] for each in await cluster.requests(api="Produce")} <= {"User:alice"}
        async with AIOKafkaConsumer("orders", **login, auto_offset_reset="earliest") as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]
        return cluster.trace


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in(mechanism: str) -> None:
    assert "SaslAuthenticate" in simulate(through_a_login(mechanism, 1, brokers=1), limit_s=LIMIT_S)


def test_a_seed_with_logins_is_repeated() -> None:
    first = simulate(through_a_login("SCRAM-SHA-256", 4), limit_s=LIMIT_S)
    assert first == simulate(through_a_login("SCRAM-SHA-256", 4), limit_s=LIMIT_S)


def test_a_wrong_password_is_refused() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1, security="sasl_plaintext", users=USERS) as cluster:
            wrong = cluster.client_config("aiokafka", "alice", "PLAIN") | {"sasl_plain_password": "wrong"}
            with pytest.raises(KafkaError):
                await AIOKafkaProducer(**wrong).start()
            right = AIOKafkaProducer(**cluster.client_config("aiokafka", "bob", "PLAIN"))
            await right.start()
            await right.stop()

    simulate(main(), limit_s=LIMIT_S)


def test_rights_count() -> None:
    async def main() -> None:
        acls = ["alice may write topic orders", "alice may describe topic orders"]
        async with SimulatedCluster(brokers=2, security="sasl_plaintext", users=USERS, acls=acls) as cluster:
            await cluster.create_topic("orders")
            async with AIOKafkaProducer(**cluster.client_config("aiokafka", "alice")) as producer:
                await producer.send_and_wait("orders", b"1")
            async with AIOKafkaProducer(**cluster.client_config("aiokafka", "bob")) as producer:
                with pytest.raises(TopicAuthorizationFailedError):
                    await producer.send_and_wait("orders", b"2")

    simulate(main(), limit_s=LIMIT_S)


def test_what_a_simulation_has_not_is_told() -> None:
    with pytest.raises(ValueError, match="no TLS"):
        SimulatedCluster(security="sasl_ssl", users=USERS)
    with pytest.raises(ValueError, match="no users"):
        SimulatedCluster().client_config("aiokafka", "alice")
