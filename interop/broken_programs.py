"""Applications of Java, Go and Node with the mistakes that people make, and right ones: interop/languages/*/broken.

Rule: a program is given applications from `orders` to `billed` by name, right or wrong, one after the other. An
application ends behind the order `last`, or with the first error, as a process does; it is then started again until its
group has committed that order. A name means the same mistake in each language, and in `interop/broken_applications.py`.

The producer of `commits_first` and `swallows_errors` makes a single attempt: the clients' own retries overcome all that
chaos draws.

    commits_first                 commits before it has billed
    retries_without_idempotence   sends again what was stored and not answered
    swallows_errors               looks at no result, and commits what could not be written
    reads_uncommitted             bills orders of an aborted transaction
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import cache
from typing import Any

from interop import toolchains
from interop.fault_programs import Steps
from interop.jars import KAFKA_VERSION
from interop.supervised_applications import sell, supervised
from pykafka_broker.testing import KafkaBroker

LANGUAGES: dict[str, Callable[[], list[str]]] = {
    "java": lambda: toolchains.java("Broken", KAFKA_VERSION),
    "go": lambda: toolchains.go("broken"),
    "node": lambda: toolchains.node("broken.js"),
}
FAULTS: dict[str, dict[str, Any]] = {  # the faults with which each mistake shows
    "commits_first": {"client_id": "biller", "error": "POLICY_VIOLATION"},
    "retries_without_idempotence": {"client_id": "biller", "error": "REQUEST_TIMED_OUT", "applied": True},
    "swallows_errors": {"client_id": "biller", "error": "POLICY_VIOLATION"},
    "reads_uncommitted": {"client_id": "cashier", "error": "POLICY_VIOLATION"},
}


@cache
def _program(language: str) -> Steps:
    """Start the program of a language, which ends with this process."""
    program = Steps(LANGUAGES[language]())
    atexit.register(program.close)
    return program


def run(language: str, name: str, broker: KafkaBroker, right: bool) -> None:
    """Run an application of a language, again and again, until everything is committed."""
    if name == "reads_uncommitted":
        sell(broker)
    ((_, last),) = broker.produce("orders", [("last", "{}")])
    line = f"{broker.bootstrap_servers} {name} {'right' if right else 'wrong'}"
    supervised(broker, lambda _: _program(language).step(line), last + 1)
