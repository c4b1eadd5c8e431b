"""A user's class that decides which quota a client has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.effects import refusals
from pykafka_broker.config.values import ConfigError
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.produce_request import ProduceRequest
from pykafka_broker.security.hooks.quota_callback import HookedQuotas
from pykafka_broker.security.quotas.client_quotas import FETCHED_BYTES, PRODUCED_BYTES, ClientQuotas, QuotaLimit
from pykafka_broker.security.quotas.rate import Windows
from tests.broker.api.real_broker import RealBroker

KEY = "client.quota.callback.class"


class ByTeam:
    """Clients whose id begins with the same word share what is set for the default client id."""

    def __init__(self) -> None:
        self.limits: dict[str, float] = {}
        self.told: list[Any] = []
        self.closed = False

    def quota_metric_tags(self, quota_type: str, principal: str, client_id: str) -> Mapping[str, str] | None:
        return {"team": client_id.partition("-")[0]} if client_id != "free" else None

    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        return self.limits.get(quota_type)

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], limit: float) -> None:
        self.told.append((quota_type, entity, limit))
        self.limits[quota_type] = limit

    def remove_quota(self, quota_type: str, entity: Mapping[str, str | None]) -> None:
        self.told.append((quota_type, entity))
        del self.limits[quota_type]

    def close(self) -> None:
        self.closed = True


class Failing(ByTeam):
    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        raise KeyError(quota_type)

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], limit: float) -> None:
        raise KeyError(quota_type)


class Senseless(ByTeam):
    def quota_metric_tags(self, quota_type: str, principal: str, client_id: str) -> Any:
        return 7


def hooked(kind: type) -> HookedQuotas:
    return HookedQuotas(BrokerConfig({KEY: f"{__name__}:{kind.__name__}"}))


DEFAULT = (("client-id", None),)


def test_those_with_the_same_tags_are_counted_together() -> None:
    quotas = hooked(ByTeam)
    quotas.follow({DEFAULT: {PRODUCED_BYTES: 1000.0}})
    expected = QuotaLimit(1000.0, (("team", "a"),))
    assert [quotas.find(PRODUCED_BYTES, "User:x", each) for each in ("a-1", "a-2", "free")] == [expected] * 2 + [None]
    assert quotas.find(FETCHED_BYTES, "User:x", "a-1") is None


def test_it_is_told_what_changes_in_the_metadata_and_nothing_else() -> None:
    quotas = hooked(ByTeam)
    alice = (("user", "alice"),)
    quotas.follow({DEFAULT: {PRODUCED_BYTES: 1.0}, (("ip", "::1"),): {"connection_creation_rate": 1.0}})
    quotas.follow({DEFAULT: {PRODUCED_BYTES: 1.0}, alice: {FETCHED_BYTES: 2.0}})
    quotas.follow({alice: {FETCHED_BYTES: 3.0}})
    assert quotas.hook.told == [  # type: ignore[attr-defined]
        ("PRODUCE", {"client-id": None}, 1.0),
        ("FETCH", {"user": "alice"}, 2.0),
        ("FETCH", {"user": "alice"}, 3.0),
        ("PRODUCE", {"client-id": None}),
    ]


@pytest.mark.parametrize("kind", [Failing, Senseless])
def test_one_that_fails_has_set_no_limit_and_the_log_says_why(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    quotas = hooked(kind)
    with caplog.at_level(logging.ERROR):
        quotas.follow({DEFAULT: {PRODUCED_BYTES: 1.0}})
        assert quotas.find(PRODUCED_BYTES, "User:x", "a") is None
    assert f"{kind.__name__} has failed" in caplog.text


class Nothing(ByTeam):
    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        return 0


@pytest.mark.parametrize(("is_of_4_4", "throttle_ms"), [(False, 0), (True, 2**31 - 1)])
def test_a_quota_of_nothing_is_what_kafka_makes_of_it(is_of_4_4: bool, throttle_ms: int) -> None:
    """Asked of Kafka 4.3.1 and of 4.4.0 with a callback that says 0 for one kind after the other."""
    client = "User:x", "a"
    quotas = ClientQuotas(hooked(Nothing), Windows(11, 1000), Windows(11, 1000), is_of_4_4=is_of_4_4)
    for kind in (PRODUCED_BYTES, FETCHED_BYTES):
        assert [quotas.record(kind, *client, 1000, now) for now in (0, 1)] == [throttle_ms] * 2
    assert quotas.most_bytes(FETCHED_BYTES, *client) == 0, "one batch"
    assert quotas.record_time(*client, 1000, 0) == 1000
    first, second, of_an_old_client = (quotas.mutations(*client, 0, strict=strict) for strict in (True, True, False))
    assert first is not None
    assert second is not None
    assert of_an_old_client is not None
    first.spend(3)
    assert first.throttle_ms == 0
    with pytest.raises(ApiError, match="THROTTLING_QUOTA_EXCEEDED"):
        second.spend(1)
    of_an_old_client.spend(1)
    assert (second.throttle_ms, of_an_old_client.throttle_ms) == (0, 0)


def test_a_broker_asks_it_and_closes_it_at_the_end(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **{KEY: f"{__name__}:ByTeam", "quota.window.num": "1"})
    hook = node.broker.whole.quota_callback
    assert hook is not None
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[])
    assert node.call(request, 9).throttle_time_ms == 0
    ops = [OpData("producer_byte_rate", 10.0, False)]
    node.call(AlterClientQuotasRequest([EntryData([EntityData("client-id", None)], ops)]), 1)
    assert node.call(request, 9).throttle_time_ms > 0
    node.stop()
    assert hook.hook.closed  # type: ignore[attr-defined]


def test_a_java_class_is_refused() -> None:
    [line] = refusals(BrokerConfig({KEY: "org.example.Quotas"}))
    assert "it names a Java class that would have to set quotas" in line
    assert refusals(BrokerConfig({KEY: "my.quotas:ByTeam"})) == []


def test_a_class_without_its_methods_is_refused() -> None:
    with pytest.raises(ConfigError, match="must have the method quota_metric_tags"):
        HookedQuotas(BrokerConfig({KEY: "collections:Counter"}))
