"""A test with other people's clients that fails is tried once more, and the summary names it (`RERUN`).

Such tests have time-outs of JVMs, of brokers that are killed and of clients with defects of their own, and a busy
machine is no defect of the broker. Rule: that is for what came late. What says that records are lost, doubled, or
not what was written is `WrongRecords`, and is never tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECOND_TRY = pytest.mark.flaky(reruns=1, rerun_except=["WrongRecords"])


class WrongRecords(AssertionError):
    """What is read is not what was acknowledged."""


@contextmanager
def about_records() -> Iterator[None]:
    """What is found wrong in here, or in a function that has this as its decorator, is about records."""
    try:
        yield
    except AssertionError as error:
        raise WrongRecords(*error.args) from error
