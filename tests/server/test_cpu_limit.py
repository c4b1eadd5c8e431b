"""What must not take long."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

from pykafka_broker.server.cpu_limit import TooLong, cpu_limit


def test_an_expression_that_explodes_is_ended() -> None:
    begun = time.process_time()
    with pytest.raises(TooLong), cpu_limit(0.02):
        re.fullmatch("(a+)+b", "a" * 60)
    assert time.process_time() - begun < 2


def test_what_is_done_in_time_leaves_no_trace() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with cpu_limit(10):
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_in_another_thread_nothing_is_limited() -> None:
    done = []

    def work() -> None:
        with cpu_limit(0.000001):
            done.append(re.fullmatch("(a+)+b", "a" * 15))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [None]
