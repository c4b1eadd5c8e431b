"""The history of clients' requests, and checks of it: `broker.history`, `broker.check()`.

Rule: the checks are the control API's own, over the histories of one broker or of several. They run in the test's
process, so that `key` may be a function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from pykafka_broker.testing.arguments import check_name, check_names, check_type
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.data import BrokerPart, Data
from pykafka_broker.testing.record import Record

if TYPE_CHECKING:
    from pykafka_broker.control.history.application import Guarantee
    from pykafka_broker.control.history.findings import Anomaly, Finding, Forbidden

__tracebackhide__ = told_to_the_test
_LONG_S = 600.0
_MOST_TOLD = 20  # findings in the text of an error


class AnomaliesFound(AssertionError):
    """A check has found something; `findings` are the anomalies."""

    def __init__(self, findings: list[Finding]) -> None:
        lines = [line for each in findings[:_MOST_TOLD] for line in each.lines]
        if len(findings) > _MOST_TOLD:
            lines.append(f"and {len(findings) - _MOST_TOLD} more")
        count = "an anomaly" if len(findings) == 1 else f"{len(findings)} anomalies"
        super().__init__(f"{count}\n" + "\n".join(lines))
        self.findings = findings


class History(BrokerPart):
    """The history that a broker writes of its clients' requests: `broker.history.start()`."""

    def start(self, most_bytes: int | None = None) -> None:
        """Write down from now on what clients produce, fetch and commit; does nothing if that is done already.

        Args:
            most_bytes: the size at which the history is full, by default 256 MiB. A full history is not checked.
        """
        self.control.call("POST", "/history", {"most_bytes": most_bytes})

    def stop(self) -> None:
        """Write nothing down any more, and forget the history."""
        self.control.call("DELETE", "/history")

    def clear(self) -> None:
        """Forget what was written down so far, and go on."""
        self.control.call("POST", "/history/clear")


class Questions(TypedDict, total=False):
    """The arguments of `Checks.check`, but for `raises`."""

    input: str | None
    output: str | None
    key: str | Callable[[Record], Hashable]
    guarantee: Guarantee
    order: str | Callable[[Record], Hashable] | None
    seen_by: str | None
    allow: Collection[Anomaly]
    forbid: Collection[Forbidden]
    empty_ok: bool


class Checks(Data):
    """Checks of what happened at a broker."""

    @property
    def history(self) -> History:
        """The history of clients' requests."""
        return History(self.control)

    def _histories(self) -> list[list[dict[str, Any]]]:
        return [self._rows("all")]

    def _rows(self, part: str) -> list[dict[str, Any]]:
        """Return the history of a broker, or its part "facts" or "logs"."""
        return rows_of(self._answer(str, "GET", "/history", query={"part": part}, timeout_s=_LONG_S))

    def check(
        self,
        *,
        input: str | None = None,
        output: str | None = None,
        key: str | Callable[[Record], Hashable] = "key",
        guarantee: Guarantee = "exactly_once",
        order: str | Callable[[Record], Hashable] | None = None,
        seen_by: str | None = None,
        allow: Collection[Anomaly] = (),
        forbid: Collection[Forbidden] = (),
        empty_ok: bool = False,
        raises: bool = True,
    ) -> list[Finding]:
        """Check the history for anomalies, or an application for what it lost, doubled or invented.

        Args:
            input, output: the topics of an application. With both, its records are checked and nothing else.
            key: which records belong together: "key", "value", "header:NAME", a JSON pointer into the value ("/id"), or
                a function from a record to its id. An input record with the id None wants no output.
            guarantee: "exactly_once"; "at_least_once", which allows doubled records; "at_most_once", which allows lost
                ones.
            order: as `key`, of an input record: outputs of the same value must be in one partition, in the order of
                their inputs. An input record with the value None has no order.
            seen_by: a group that must have fetched all records of the topics that it reads.
            allow: names of anomalies that are as they should be: `allow=["aborted read"]`.
            forbid: what Kafka allows and the application does not want: `forbid=["write cycle"]`.
            empty_ok: no client need have produced, fetched or committed anything.
            raises: False returns the findings instead.

        Returns:
            What was found, with `anomaly`, `text`, `topic`, `partition`, `offset`, `way` and `lines`.

        Raises:
            AnomaliesFound: there is an anomaly.
            ControlError: no history is written.
            TypeError: an argument would not be used: one of an application without topics, or another beside them.
            ValueError: the history is full, an argument is wrong, or nothing could be found: both topics are empty, or
                are one, no input record has an id and there is no output, no input record has an order, the topics of
                `seen_by` never had a record, or nothing was recorded.
        """
        asked = {"input": input, "output": output, "key": key, "guarantee": guarantee, "order": order}
        _check_used(asked | {"seen_by": seen_by, "forbid": forbid, "empty_ok": empty_ok})
        _check_names(guarantee, allow, forbid)
        if seen_by is not None:
            check_type("seen_by", seen_by, str, "the name of a group")
        for name, given in (("key", key), ("order", key if order is None else order)):
            if not (isinstance(given, str) or callable(given)):
                raise TypeError(f"{name} must be an expression such as 'key' or '/id', or a function, not {given!r}")
        histories = self._histories()
        if input is None or output is None:
            found = _anomalies(histories, seen_by, forbid, empty_ok)
        else:
            inputs, outputs = self.records(input), self.records(output)
            found = _anomalies_of_application(histories, inputs, outputs, key, guarantee, order)
        found = [each for each in found if each.anomaly not in allow]
        if found and raises:
            raise AnomaliesFound(found)
        return found


def _check_used(asked: Mapping[str, Any]) -> None:
    """Raise TypeError for an argument that a check would not use."""
    from pykafka_broker.control.history.application import contradiction

    if reason := contradiction(asked):
        raise TypeError(reason)


def _check_names(guarantee: object, allow: object, forbid: object) -> None:
    """Check the names in a check's arguments: with an unknown name the check would look for something else."""
    from pykafka_broker.control.history.application import GUARANTEES
    from pykafka_broker.control.history.findings import Anomaly, Forbidden

    check_name("guarantee", guarantee, GUARANTEES)
    check_names("allow", allow, get_args(Anomaly))
    check_names("forbid", forbid, get_args(Forbidden))


def late(facts: Iterable[Mapping[str, Any]], logs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each partition with facts that was led by none of the brokers that were asked for their logs,
    though it has a leader: the leader moved meanwhile, or has ended and the controller does not know yet.
    """
    used = {(row["topic"], row["partition"]) for row in facts if "partition" in row}
    used -= {(row["topic"], row["partition"]) for row in logs if "partition" in row}
    topics: dict[str, Any] = next((row["topics"] for row in reversed(logs) if row["kind"] == "topics"), {})
    return [
        {
            "kind": "unread",
            "topic": topic,
            "partition": index,
            "why": f"its leader, broker {leader}, does not answer for it",
        }
        for topic, told in topics.items()
        for index, leader in enumerate(told["leaders"])
        if (topic, index) in used
    ]


def rows_of(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.split("\n") if line]


def rows_of_file(path: Path, topic_names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the history that a broker has left, which is not running now.

    Args:
        topic_names: the names of topics by id.
    """
    from pykafka_broker.control.history.entries import HistoryFile
    from pykafka_broker.control.history.facts import facts_of, row_of
    from pykafka_broker.protocol.runtime import uuid_text

    file = HistoryFile(str(path))
    try:
        rows: list[dict[str, Any]] = [
            {"kind": "history", "whole": file.whole, "full": file.full, "size_bytes": file.size_bytes}
        ]
        for entry in file.entries():
            rows += [row_of(fact) for fact in facts_of(entry, lambda topic_id: topic_names.get(uuid_text(topic_id)))]
    finally:
        file.close()
    return rows


def _anomalies(
    histories: list[list[dict[str, Any]]], seen_by: str | None, forbid: Collection[Forbidden], empty_ok: bool
) -> list[Finding]:
    """Return the anomalies in histories, as `Checks.check`."""
    from pykafka_broker.control.history.checks import findings
    from pykafka_broker.control.history.findings import evidence_of

    return findings(evidence_of(histories), seen_by, forbid, empty_ok)


def _anomalies_of_application(
    histories: list[list[dict[str, Any]]],
    inputs: Collection[Record],
    outputs: Collection[Record],
    key: str | Callable[[Record], Hashable],
    guarantee: Guarantee,
    order: str | Callable[[Record], Hashable] | None,
) -> list[Finding]:
    """Return what an application has lost, doubled or invented, as `Checks.check`."""
    from pykafka_broker.control.history.application import identify_by, verdict
    from pykafka_broker.control.history.findings import evidence_of

    skips = not isinstance(key, str)  # a function may choose
    identify, ordered = (identify_by(each) if isinstance(each, str) else each for each in (key, order))
    assert identify is not None
    return verdict(evidence_of(histories), inputs, outputs, identify, guarantee, order=ordered, skips=skips)
