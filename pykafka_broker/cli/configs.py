"""`pykafka-broker configs`: every config key of Kafka and its effect in this broker.

Rule: with any flag of Kafka's own tool the word calls that tool (`tools/configs.py`); `is_tool` decides. The module is
imported by this command alone: the registry of all keys takes some 25 ms.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from pykafka_broker.cli.commands import parser_for
from pykafka_broker.config.effects import EFFECTS, effect_of
from pykafka_broker.config.registry import ConfigKey, broker_keys, client_metrics_keys, group_keys, topic_keys

SCOPES = {"broker": broker_keys, "topic": topic_keys, "group": group_keys, "client-metrics": client_metrics_keys}


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `configs`. Returns the exit code."""
    options = parser().parse_args(arguments)
    for scope, keys in SCOPES.items():
        if options.scope in (None, scope):
            for line in _lines(scope, keys(), options.effect):
                print(line)
    return 0


def parser() -> argparse.ArgumentParser:
    command = parser_for("configs")
    command.add_argument("command", choices=["configs"], help=argparse.SUPPRESS)
    command.add_argument("--scope", choices=SCOPES, help="only the keys of brokers, topics, groups or subscriptions")
    command.add_argument("--effect", choices=EFFECTS, help="only the keys with this effect")
    return command


def _lines(scope: str, keys: dict[str, ConfigKey], wanted: str | None) -> Iterator[str]:
    for name in sorted(keys):
        key = keys[name]
        effect, reason = effect_of(scope, name)
        if wanted in (None, effect) and not (key.internal and effect == "no effect"):
            default = "(unset)" if key.default_text is None else key.default_text or '""'
            text = f"{effect}: {reason}" if reason else effect
            if key.since is not None:
                text = f"Kafka {key.since}: {text}"
            yield f"{scope}  {name}  {key.type.name.lower()}  {default}  {text}"
