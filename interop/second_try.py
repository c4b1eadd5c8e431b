"""A test with other people's clients that fails is tried once more, and the summary names it (`RERUN`).

Such tests have time-outs of JVMs, of brokers that are killed and of clients with defects of their own, and a busy
machine is no defect of the broker. Rule: that is for what came late. What says that records are lost, doubled, or
not what was written is `WrongRecords`, and is never tried again. The second try has fixtures of its own, but for those
of the whole session: what the first one has made on their brokers would be in its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SECOND_TRY = pytest.mark.flaky(reruns=1, rerun_except=["WrongRecords"])


def begin_anew(item: pytest.Item) -> None:
    """Before a test is set up: what it shares with others of its file is made anew for a second try."""
    if isinstance(item, pytest.Function) and getattr(item, "execution_count", 1) > 1:  # as pytest-rerunfailures counts
        request: Any = item._request
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for one in definitions:
                if one.scope != "session":
                    one.finish(request)


class WrongRecords(AssertionError):
    """What is read is not what was acknowledged."""


@contextmanager
def about_records() -> Iterator[None]:
    """What is found wrong in here, or in a function that has this as its decorator, is about records."""
    try:
        yield
    except AssertionError as error:
        raise WrongRecords(*error.args) from error
