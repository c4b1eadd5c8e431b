"""The history of clients' requests, and checks of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pykafka_broker.control.control import Control, in_pauses
from pykafka_broker.control.history.application import Guarantee, PlainRecord, contradiction, identify_by, verdict
from pykafka_broker.control.history.checks import findings
from pykafka_broker.control.history.entries import MOST_BYTES, HistoryFile
from pykafka_broker.control.history.facts import facts_of, row_of
from pykafka_broker.control.history.findings import Anomaly, Finding, Forbidden, HistoryFull, evidence_of
from pykafka_broker.control.history.outlines import log_rows, row_of_topics
from pykafka_broker.control.operations import Lines
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.reading import TopicWatch, no_topic
from pykafka_broker.control.schema import ValueLimits

Bytes = Annotated[int, ValueLimits(minimum=8 << 20, maximum=1 << 40)]
Part = Literal["all", "facts", "logs"]
_ENTRIES_AT_ONCE, _BATCHES_AT_ONCE, _RECORDS_AT_ONCE = 50, 1_000, 1_000  # clients are served after as many


@dataclass
class HistoryState:
    """Whether a history is written, whether it began with the data, and how far the file is filled."""

    running: bool
    whole: bool = False
    full: bool = False
    size_bytes: int = 0


def start_history(control: Control, most_bytes: Bytes = MOST_BYTES) -> HistoryState:
    """Write down from now on what clients produce, fetch and commit, for `check`. Does nothing if that is done already.
    A history with `most_bytes` is full, and is not checked any more.
    """
    try:
        control.histories.start(most_bytes=most_bytes)
    except OSError as error:
        raise Problem(503, f"no history can be written: {error.filename}: {error.strerror}") from None
    return _state(control)


def stop_history(control: Control) -> None:
    """Write no history any more, and forget it."""
    control.histories.stop()


def clear_history(control: Control) -> HistoryState:
    """Forget what was written down so far, and go on."""
    control.histories.file.clear(whole=not control.services.image.topics)
    return _state(control)


def history(control: Control, part: Part = "all") -> Lines:
    """Return the facts of the history, and an outline of each log that is led here, as lines of JSON. In a cluster the
    facts of all brokers are asked for first, and then the logs: a log that is read later has all that was told before.
    """
    return Lines(_lines(control, control.histories.file, part))


def _state(control: Control) -> HistoryState:
    if not control.histories.running:
        return HistoryState(False)
    file = control.histories.file
    return HistoryState(True, file.whole, file.full, file.size_bytes)


async def _lines(control: Control, file: HistoryFile, part: Part) -> AsyncIterator[str]:
    async for row in _rows(control, file, part):
        yield await _line(row)


async def _line(row: dict[str, Any]) -> str:
    """Return a row as JSON. Clients are served while the batches of a long log are written."""
    batches = row.get("batches")
    if batches is None:
        return _json(row)
    pieces = (_json(batches[first : first + _BATCHES_AT_ONCE]) for first in range(0, len(batches), _BATCHES_AT_ONCE))
    written = [piece[1:-1] async for piece in in_pauses(pieces, 1)]
    head = _json({name: value for name, value in row.items() if name != "batches"})
    return f'{head[:-1]},"batches":[{",".join(written)}]}}'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


async def _rows(control: Control, file: HistoryFile, part: Part = "all") -> AsyncIterator[dict[str, Any]]:
    if part != "logs":
        async for row in _fact_rows(control, file):
            yield row
    if part != "facts":
        async for row in log_rows(lambda: control.services):
            yield row


async def _fact_rows(control: Control, file: HistoryFile) -> AsyncIterator[dict[str, Any]]:
    forgotten, entries, topics = file.times_forgotten, file.entries(), row_of_topics(control.services)
    yield {"kind": "history", "node": control.services.node_id, **asdict(_state(control))}
    yield topics
    async for entry in in_pauses(entries, _ENTRIES_AT_ONCE):
        for fact in facts_of(entry, control.observing.known.topic_name):
            yield row_of(fact)
    if file.times_forgotten != forgotten:
        raise Problem(409, "the history was cleared or stopped while it was read")


async def check(
    control: Control,
    input: str | None = None,
    output: str | None = None,
    key: str = "key",
    guarantee: Guarantee = "exactly_once",
    order: str | None = None,
    seen_by: str | None = None,
    allow: list[Anomaly] | None = None,
    forbid: list[Forbidden] | None = None,
    empty_ok: bool = False,
) -> list[Finding]:
    """Return the anomalies in the history of this broker; the anomalies named in `allow` are left out. With `input` and
    `output`, two topics, return instead what an application in between has lost, doubled or invented: `key` says which
    records belong together ("key", "value", "header:NAME", or a JSON pointer into the value), and `guarantee` what is
    forbidden; with `order`, of the same form as `key`, outputs of the same value must come as their inputs did. With
    `seen_by`, a group, records of its topics that it has never fetched are anomalies too, and with `forbid` what Kafka
    itself allows. A history that no client has used is refused, as nothing could be found, unless `empty_ok` is true.
    """
    asked = {"input": input, "output": output, "key": key, "guarantee": guarantee, "order": order}
    if reason := contradiction(asked | {"seen_by": seen_by, "forbid": forbid, "empty_ok": empty_ok}):
        raise Problem(400, reason)
    rows = [row async for row in _rows(control, control.histories.file)]
    try:
        identify, ordered = identify_by(key), None if order is None else identify_by(order)
        evidence = await asyncio.to_thread(evidence_of, [rows])
        if input is not None and output is not None:
            inputs, outputs = await _records(control, input), await _records(control, output)
            found = await asyncio.to_thread(verdict, evidence, inputs, outputs, identify, guarantee, order=ordered)
        else:
            found = await asyncio.to_thread(findings, evidence, seen_by, forbid or (), empty_ok)
    except HistoryFull as full:
        raise Problem(409, str(full)) from None
    except ValueError as error:
        raise Problem(400, str(error)) from None
    return [each for each in found if each.anomaly not in (allow or ())]


async def _records(control: Control, topic: str) -> list[PlainRecord]:
    """Return all records of a topic; clients are served meanwhile. Raises `Problem` if some can't be read."""
    watch = TopicWatch(control, topic, "read_committed")
    if not watch.exists:
        raise no_topic(control, topic)
    found = [
        PlainRecord(topic, index, each.offset, each.key, each.value, tuple(each.headers))
        async for index, (each, *_) in in_pauses(watch.records(), _RECORDS_AT_ONCE)
    ]
    watch.require_all()
    return found
