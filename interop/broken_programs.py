"""Applications of Java, Go and Node with the mistakes that people make, and right ones: interop/languages/*/broken.

Rule: a program is an application from `orders` to `billed` by its name, right or wrong, and ends when it has worked off
its orders. What befalls it is added to the broker before it begins, the same for both forms. A name means the same
mistake in each language, and in `interop/broken_applications.py`.

    commits_first                 commits before it has billed, and crashes in between
    retries_without_idempotence   sends again what was stored and not answered
    swallows_errors               looks at no result, and commits what could not be written
    reads_uncommitted             bills orders of an aborted transaction
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from confluent_kafka import Producer

from interop import toolchains
from interop.broken_applications import ORDERS, PATIENCE_S
from interop.jars import KAFKA_VERSION
from pykafka_broker.testing import KafkaBroker

END_S = 120
LANGUAGES: dict[str, Callable[[], list[str]]] = {
    "java": lambda: toolchains.java("Broken", KAFKA_VERSION),
    "go": lambda: toolchains.go("broken"),
    "node": lambda: toolchains.node("broken.js"),
}


def run(language: str, broker: KafkaBroker, name: str, right: bool) -> None:
    """Run an application of a language to its end."""
    command = LANGUAGES[language]()
    orders = _PREPARED[name](broker) + (name == "reads_uncommitted" and not right)
    how = "right" if right else "wrong"
    done = subprocess.run(
        [*command, broker.bootstrap_servers, name, how, str(orders)],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def _nothing(broker: KafkaBroker) -> int:
    return ORDERS


def _lost_answer(broker: KafkaBroker) -> int:
    broker.faults.add(api="Produce", client_id="biller", error="REQUEST_TIMED_OUT", applied=True, times=1)
    return ORDERS


def _refusal(broker: KafkaBroker) -> int:
    broker.faults.add(api="Produce", client_id="biller", error="POLICY_VIOLATION", times=1)
    return ORDERS


def _aborted_order(broker: KafkaBroker) -> int:
    """Write an order in a transaction that is aborted, and one in another transaction."""
    settings = {"client.id": "writer", "transactional.id": "orders", "linger.ms": 0}
    writer = Producer({**broker.client_config("confluent"), **settings})
    writer.init_transactions()
    for key in (b"never", b"order-20"):
        writer.begin_transaction()
        writer.produce("orders", b"{}", key=key, partition=0)
        assert writer.flush(PATIENCE_S) == 0
        if key == b"never":
            writer.abort_transaction()
        else:
            writer.commit_transaction()
    return ORDERS + 1


_PREPARED: dict[str, Callable[[KafkaBroker], int]] = {
    "commits_first": _nothing,
    "retries_without_idempotence": _lost_answer,
    "swallows_errors": _refusal,
    "reads_uncommitted": _aborted_order,
}
