"""`pykafka-broker check`: anomalies in the histories of one broker, or of all brokers of a cluster.

Rule: the checks and their lines are those of `broker.check()`. Exit code 0: nothing was found; 1: something was, and
standard output says what; 2: nothing could be checked.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, TypeVar, cast, get_args

from pykafka_broker.cli.addresses import TOKEN_VARIABLE, URL_VARIABLE
from pykafka_broker.cli.commands import BAD_USAGE, CommandParser, error_line, parser_for
from pykafka_broker.control.history.application import GUARANTEES, contradiction
from pykafka_broker.control.history.findings import Anomaly, Forbidden
from pykafka_broker.testing.control_client import ControlClient, ControlError
from pykafka_broker.testing.data import Step
from pykafka_broker.testing.history import Checks, Questions
from pykafka_broker.testing.remote import RemoteBroker

FOUND = 1
_LED_ELSEWHERE = "NOT_LEADER_OR_FOLLOWER"
T = TypeVar("T")


def parser() -> CommandParser:
    command = parser_for("check")
    url = f"address of a broker's control API; again for each further broker of a cluster; by default {URL_VARIABLE}"
    command.add_argument("--url", action="append", help=url)
    add_questions(command)
    return command


def add_questions(command: CommandParser) -> None:
    """Add the options that say what to check."""
    command.option("--input TOPIC", "judge the application that reads this topic")
    command.option("--output TOPIC", "the topic that the application writes")
    command.option("--key KEY", "what belongs together: key, value, header:NAME or a JSON pointer (key)", default="key")
    command.add_argument("--guarantee", choices=GUARANTEES, default=GUARANTEES[0], help="what the application promises")
    command.option("--order KEY", "of the same value, as in --key, outputs must come as their inputs did")
    command.option("--seen-by GROUP", "a group that must have fetched all records of its topics")
    command.add_argument(
        "--allow", action="append", default=[], choices=get_args(Anomaly), help="an anomaly to leave out"
    )
    command.add_argument(
        "--forbid", action="append", default=[], choices=get_args(Forbidden), help="what Kafka allows, as an anomaly"
    )
    command.add_argument("--empty-ok", action="store_true", help="no client need have used the history")


def questions(command: CommandParser, options: argparse.Namespace) -> Questions:
    """Return what to check; contradicting options end the command."""
    if reason := contradiction(vars(options), lambda name: f"--{name.replace('_', '-')}"):
        command.error(reason)
    return cast("Questions", {name: getattr(options, name) for name in Questions.__annotations__})


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `check`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    urls = options.url or list(filter(None, [os.environ.get(URL_VARIABLE)]))
    if not urls:
        own.error(f"--url or {URL_VARIABLE} must name the control API")
    asked = questions(own, options)
    try:
        brokers = [RemoteBroker(url, os.environ.get(TOKEN_VARIABLE)) for url in urls]
        found = _Brokers(brokers).check(**asked, raises=False)
    except (ControlError, OSError, ValueError) as error:
        print(f"pykafka-broker check: {error_line(error)}", file=sys.stderr)
        return BAD_USAGE
    for each in found:
        print("\n".join(each.lines))
    return FOUND if found else 0


class _Brokers(Checks):
    """The brokers of a cluster, as far as a check needs them."""

    def __init__(self, brokers: Sequence[RemoteBroker]) -> None:
        self._brokers = brokers

    @property
    def control(self) -> ControlClient:
        return self._brokers[0].control

    def _histories(self) -> list[list[dict[str, Any]]]:
        found = [broker._rows("facts") for broker in self._brokers]
        for rows, broker in zip(found, self._brokers, strict=True):
            rows += broker._rows("logs")
        return found

    def _at_leader(self, topic: str, partition: int, step: Step[Any, T]) -> T:
        for broker in self._brokers[:-1]:
            try:
                return step(broker)
            except ControlError as error:
                if error.code != _LED_ELSEWHERE:
                    raise
        return step(self._brokers[-1])
