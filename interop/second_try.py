"""A second try for the tests of a few files, which `conftest.py` names with the reason of each; the summary names a
test that needed its second try (`RERUN`).

Rule: a file is in that list for a known defect of another program that the test meets by chance, never for a busy
machine: a harness that fails there is mended. `WrongRecords` says that records are lost, doubled or changed, and is
never tried again. The second try has fixtures of its own, except those of the whole session: topics that the first
try has made on their brokers would be in its way.
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
