"""Answers of brokers to clients that ask for subscriptions and push metrics (KIP-714).

Rule: each function is one scenario with subscriptions of its own, which select its clients by their id and are gone at
its end. Between two requests a millisecond passes at least, since Kafka compares their times.
"""

from __future__ import annotations

import gzip
from typing import Any

from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text
from tests.scenarios.groups.stage import Client, Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.telemetry.settings import MAX_BYTES

CLIENT_METRICS, SET, DELETE = 16, 0, 1
INTERVAL_MS = 1_000
NEXT_MS = 1_100  # longer than an interval
MANY = "a,b"


class TelemetryStage(Stage):
    """A stage that gives names to client instances and subscription ids, and records no changes of subscriptions."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self._numbers: dict[tuple[str, int], str] = {}

    def ready(self) -> None:
        """Do nothing: telemetry has no coordinator to wait for."""

    def subscribe(self, name: str, **configs: str) -> None:
        """Create or change the subscription called `name`."""
        self._alter(name, {key.replace("_", "."): value for key, value in configs.items()})

    def unsubscribe(self, *names: str) -> None:
        for name in names:
            self._alter(name, {"metrics": None, "interval.ms": None, "match": None})

    def _alter(self, name: str, configs: dict[str, str | None]) -> None:
        changes = [AlterableConfig(key, DELETE if value is None else SET, value) for key, value in configs.items()]
        resource = AlterConfigsResource(CLIENT_METRICS, f"{self.world.name}-{name}", changes)
        self._admin.send(IncrementalAlterConfigsRequest([resource]), 1)
        (answer,) = self._admin.receive().responses
        assert not answer.error_code, answer.error_message
        self.world.settle()

    def pusher(self, name: str, instance: str = "") -> Pusher:
        return Pusher(self, name, instance or name)

    def plain(self, value: Any, field: str = "") -> Any:
        if field == "client_instance_id" and value != ZERO_UUID:
            return self._named(field, int.from_bytes(value, "big"))
        if field == "subscription_id" and value:
            return self._named(field, value)
        return super().plain(value, field)

    def _named(self, field: str, number: int) -> str:
        of_field = sum(kind == field for kind, _ in self._numbers)
        return self._numbers.setdefault((field, number), f"{field} {of_field + 1}")


class Pusher(Client):
    """A client that pushes metrics. instance: the first part of its id; the scenario's name is the rest."""

    stage: TelemetryStage

    def __init__(self, stage: TelemetryStage, name: str, instance: str) -> None:
        super().__init__(stage, f"{stage.world.name}-{name}")
        self.name = name
        self.instance_id = f"{instance}.{stage.world.name[::-1]}".encode()[:16].ljust(16, b".")
        self.subscription_id = 0

    def get(self, instance_id: bytes | None = None) -> Any:
        """Ask for the subscription, and keep its id."""
        answer = self.ask(GetTelemetrySubscriptionsRequest(self.instance_id if instance_id is None else instance_id))
        self.subscription_id = answer.subscription_id or self.subscription_id
        self.stage.world.wait(10)
        return answer

    def push(
        self,
        metrics: bytes = b"x",
        *,
        codec: int = 0,
        terminating: bool = False,
        wrong: bool = False,
        instance_id: bytes | None = None,
    ) -> Any:
        """Push metrics. wrong: with the id of another subscription."""
        where = self.instance_id if instance_id is None else instance_id
        asked = self.subscription_id + wrong
        answer = self.ask(PushTelemetryRequest(where, asked, terminating, codec, metrics))
        self.stage.world.wait(10)
        return answer


SCENARIOS = scenario = Scripts[TelemetryStage]()


@scenario
def nothing_is_subscribed(s: TelemetryStage) -> None:
    one = s.pusher("one")
    one.get(ZERO_UUID)
    one.get()
    one.get()
    one.push(b"")
    one.push()
    s.pusher("two").push()


@scenario
def ids_that_no_client_has(s: TelemetryStage) -> None:
    one = s.pusher("one")
    one.get()
    one.push(instance_id=ZERO_UUID)
    one.push(instance_id=ZERO_UUID[:-1] + b"\1")
    one.push(instance_id=ZERO_UUID, terminating=True)


@scenario
def intervals(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="org.apache.kafka.producer", interval_ms=str(INTERVAL_MS))
    one = s.pusher("one")
    one.get()
    one.push()
    s.wait(INTERVAL_MS // 2)
    one.push()
    one.get()
    s.wait(INTERVAL_MS // 2)
    one.push()
    s.wait(INTERVAL_MS // 2)
    one.get()
    s.wait(INTERVAL_MS // 2)
    one.get()
    s.wait(INTERVAL_MS // 2)
    one.get()
    one.push()
    s.wait(INTERVAL_MS // 2)
    one.get()
    s.unsubscribe("m")


@scenario
def errors_and_what_comes_after(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="org.apache.kafka.producer", interval_ms=str(INTERVAL_MS))
    one = s.pusher("one")
    one.get()
    one.push(wrong=True)
    one.get()
    one.get()
    one.push()
    for codec in (9, -1):
        s.wait(NEXT_MS)
        one.push(codec=codec)
        one.get()
        one.push()
    s.wait(NEXT_MS)
    one.push(codec=9)
    one.push()
    one.get()
    s.wait(NEXT_MS)
    one.push(bytes(MAX_BYTES + 1))
    one.get()
    s.wait(NEXT_MS)
    one.push(codec=1)
    one.get()
    s.wait(NEXT_MS)
    one.push(bytes(MAX_BYTES + 1), codec=9, wrong=True)
    s.wait(NEXT_MS)
    one.push(bytes(MAX_BYTES + 1), codec=9)
    s.wait(NEXT_MS)
    one.push(bytes(MAX_BYTES))
    s.unsubscribe("m")


@scenario
def compressed(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="*", interval_ms="100")
    one = s.pusher("one")
    one.get()
    for codec in (1, 2, 3, 4):
        for metrics in (b"", b"no such stream"):
            s.wait(200)
            one.push(metrics, codec=codec)
    for size in (MAX_BYTES, MAX_BYTES + 1, 16 * MAX_BYTES):
        s.wait(200)
        one.push(gzip.compress(bytes(size)), codec=1)
    s.unsubscribe("m")


@scenario
def the_last_push(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="*", interval_ms=str(INTERVAL_MS))
    one = s.pusher("one")
    one.get()
    one.push()
    one.push(terminating=True)
    one.push(terminating=True)
    one.push()
    one.get()
    s.wait(NEXT_MS)
    one.push()
    two = s.pusher("two")
    two.get()
    two.push(terminating=True)
    s.wait(NEXT_MS)
    two.get()
    two.push()
    two.push(terminating=True)
    s.wait(NEXT_MS)
    two.push(terminating=True)
    three = s.pusher("three")
    three.get()
    three.push(terminating=True, wrong=True)
    three.push(terminating=True)
    s.unsubscribe("m")


@scenario
def subscriptions_that_change(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="*", interval_ms="60000")
    one = s.pusher("one")
    one.get()
    one.push()
    s.subscribe("other", metrics="a", match="client_id=nobody")
    one.push()
    one.push()
    s.subscribe("m", interval_ms="50000")
    one.push()
    one.get()
    one.push()
    s.unsubscribe("other")
    one.get()
    one.push(terminating=True)
    s.subscribe("other", metrics="a")
    one.push()
    s.unsubscribe("m", "other")
    one.get()


@scenario
def several_subscriptions(s: TelemetryStage) -> None:
    one = s.pusher("one")
    s.subscribe("m", interval_ms="7000")
    one.get()
    s.subscribe("n", metrics="b", interval_ms="3000")
    one.get()
    s.subscribe("o", metrics="a,b", interval_ms="9000")
    one.get()
    s.subscribe("p", metrics="x", interval_ms="100", match="client_id=nobody")
    one.get()
    s.subscribe("q", metrics="*")
    one.get()
    s.unsubscribe("m", "n", "o", "p", "q")


@scenario
def clients_that_fit(s: TelemetryStage) -> None:
    named, nameless = s.pusher("one"), s.pusher("two")
    named.wire.send(ApiVersionsRequest("soft", "1.2"), 4)
    named.wire.receive()
    for match in (
        f"client_id={s.world.name}-one",
        "client_id=.*-one",
        f"client_id={s.world.name}",
        "client_id=(?i).*-ONE",
        f"client_instance_id={uuid_text(named.instance_id)}",
        "client_software_name=soft",
        "client_software_name=unknown",
        "client_software_name=sof",
        "client_software_version=1[.].*",
        "client_source_address=127.0.0.1",
        "client_source_port=[0-9]+",
        " client_software_name = soft ",
        "client_software_name=soft,client_id=.*-two",
        "client_software_name=soft,client_id=.*-one",
    ):
        said = match.replace(s.world.name, "G").replace(uuid_text(named.instance_id), "one's")
        s.lines.append(f"-- {said}")
        s.subscribe("m", metrics="a", match=match)
        named.get()
        nameless.get()
    s.unsubscribe("m")


@scenario
def connections_that_end(s: TelemetryStage) -> None:
    s.subscribe("m", metrics="*", interval_ms="60000")
    one = s.pusher("one")
    one.get()
    one.push()
    again = s.pusher("again", "one")
    again.subscription_id = one.subscription_id
    again.get()
    again.push()
    one.wire.close()
    s.wait(500)
    again.push()
    again.get()
    again.push()
    s.unsubscribe("m")
