"""Records that were read from several brokers, compared with those that a test expects.

Rule: they are compared as a broker compares its own (`control/comparing.py`), with the same words.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.record import Record, to_expectation

if TYPE_CHECKING:
    from pykafka_broker.control.api import records as api
    from pykafka_broker.control.comparing import ExpectedRecord


def difference(found: Sequence[Record], expected: Iterable[Any]) -> str:
    """Return nothing if a topic has exactly the expected records, else what differs."""
    from pykafka_broker.control import comparing

    return comparing.difference(_shown(found), _expected(expected))


def missing(found: Sequence[Record], expected: Iterable[Any]) -> list[str]:
    """Return a line for each expected record that a topic does not have."""
    from pykafka_broker.control import comparing

    return comparing.missing(_shown(found), _expected(expected))[1]


def first_that_fits(found: Sequence[Record], expected: Any) -> Record | None:
    """Return the first record that is as expected."""
    from pykafka_broker.control.comparing import ExpectedMatcher

    (one,) = _expected([expected])
    wanted = ExpectedMatcher(one)
    return next((record for record, shown in zip(found, _shown(found), strict=True) if wanted.fits(shown)), None)


def listing(found: Sequence[Record]) -> str:
    """Return the last records as lines of a failure's text."""
    from pykafka_broker.control.comparing import line_of

    return "".join(f"\n  {line_of(each)}" for each in _shown(found[-20:]))


def _expected(records: Iterable[Any]) -> list[ExpectedRecord]:
    """Raises ControlError for a field that can't be read, as a broker does."""
    from pykafka_broker.control.comparing import ExpectedRecord
    from pykafka_broker.control.problems import Problem
    from pykafka_broker.control.schema import read

    try:
        return [read(ExpectedRecord, to_expectation(each), "a record") for each in records]
    except Problem as problem:
        raise ControlError(problem.status, problem.detail) from None


def _shown(records: Iterable[Record]) -> list[api.RecordAnswer]:
    from pykafka_broker.control.api.records import Header
    from pykafka_broker.control.api.records import RecordAnswer as Shown

    return [
        Shown(
            each.topic,
            each.partition,
            each.offset,
            each.timestamp,
            each.timestamp_type,
            *_text(each.key)[:1],
            *_text(each.value)[:1],
            [Header(name, *_text(value)) for name, value in each.headers],
            _text(each.key)[1],
            _text(each.value)[1],
        )
        for each in records
    ]


def _text(content: str | bytes | None) -> tuple[str | None, str | None]:
    """Content as text, or in base64."""
    if isinstance(content, bytes):
        return None, base64.b64encode(content).decode()
    return content, None
