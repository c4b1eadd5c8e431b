"""Every metric, asked of a broker that has had clients, so that each one shows its labels."""

from __future__ import annotations

import socket
import subprocess
import sys

from pages.markdown import code, plain, table
from pykafka_broker.testing import KafkaBroker

_HEAD = """# Metrics

What `GET /metrics` of the [control API](control.md) tells Prometheus. The names are those that the JMX exporter makes
of Kafka's, so that dashboards for Kafka fit; [when counting begins, and what is not counted](../seeing.md#metrics).
"""
_TOOL_OPTIONS = ("--topic", "orders", "--bootstrap-server")


def metrics() -> str:
    with KafkaBroker() as broker:
        broker.create_topic("orders")
        at = broker.bootstrap_servers
        _tool("console-producer", *_TOOL_OPTIONS, at, typed="apples\n")
        _tool("console-consumer", *_TOOL_OPTIONS, at, "--group", "g", "--from-beginning", "--max-messages", "1")
        with socket.create_connection((broker.host, broker.port)):
            told = broker.metrics()
    return f"{_HEAD}\n{table(('name', 'type', 'labels', 'what it says'), _rows(told))}"


def _rows(told: str) -> list[tuple[str, str, str, str]]:
    from prometheus_client.parser import text_string_to_metric_families

    rows = []
    for family in text_string_to_metric_families(told):
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append((code(name), family.type, ", ".join(map(code, labels)), plain(family.documentation)))
    return sorted(rows)


def _tool(name: str, *options: str, typed: str = "") -> None:
    command = [sys.executable, "-m", "pykafka_broker", name, *options]
    subprocess.run(command, input=typed, text=True, check=True, capture_output=True, timeout=60)
