"""How much there was of something in the last seconds, measured as Kafka does; what may still be used of a quota.

Rule: the numbers are Kafka's to the millisecond. A use is recorded into samples, each as long as a window; a sample
opens at the first record after the end of the one before, and counts until its last record is as old as all windows
together. The rate is the sum over the time since the oldest sample began, and that time is never taken as less than all
windows but one: a client may use those at once after a pause. With one window that time is at least a millisecond.

A token bucket is for work that comes in lumps (KIP-599): tokens come back at the rate of the quota, up to as many as
all windows would give. A client without a debt may spend as many as it needs at once, and then waits until the debt is
paid.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

LONGEST_MS = 0x7FFFFFFF


class Windows(NamedTuple):
    """The windows of `quota.window.num` and `quota.window.size.seconds`, or of the controller's keys."""

    num: int
    size_ms: int

    @property
    def all_ms(self) -> int:
        """Return how long a recorded use counts."""
        return self.num * self.size_ms

    @property
    def free_ms(self) -> int:
        """Return the time behind the burst after a pause."""
        return (self.num - 1) * self.size_ms


class _Sample:
    __slots__ = ("began", "last", "total")

    def __init__(self, now: int) -> None:
        self.began = self.last = now
        self.total = 0.0


class Rate:
    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque(maxlen=windows.num + 1)

    def record(self, amount: float, now: int) -> None:
        """Record a use; a negative amount takes an earlier use back."""
        samples = self._samples
        if not samples or now - samples[-1].began >= self._windows.size_ms:
            samples.append(_Sample(now))
        sample = samples[-1]
        sample.total += amount
        sample.last = now

    def throttle_ms(self, quota: float, now: int) -> int:
        """Return how long nothing more may be used for the rate to fall to `quota` a second; 0 if not above.

        A quota of 0 is never reached: the longest time.
        """
        windows, samples = self._windows, self._samples
        while samples and now - samples[0].last >= windows.all_ms:
            samples.popleft()
        if not samples:
            return 0
        over = 1000 * sum(sample.total for sample in samples) - quota * self._elapsed_ms(now - samples[0].began)
        return rounded(over / quota if quota else over * math.inf) if over > 0 else 0

    def _elapsed_ms(self, since_first_ms: int) -> int:
        windows = self._windows
        unused = max(0, windows.num - 1 - since_first_ms // windows.size_ms) * windows.size_ms
        return max(since_first_ms + unused, 1)

    def matters(self, now: int) -> bool:
        """Return whether anything recorded still counts."""
        return bool(self._samples) and now - self._samples[-1].last < self._windows.all_ms


class SteadyRate(Rate):
    """A rate without savings from a pause.

    The time since the oldest sample began counts as it is, from one window on. Kafka measures replicas that catch up
    so.
    """

    __slots__ = ()

    def _elapsed_ms(self, since_first_ms: int) -> int:
        return max(since_first_ms, self._windows.size_ms)


def rounded(milliseconds: float) -> int:
    """Return milliseconds to the nearest whole, as Java does.

    A quota may be next to nothing, or infinite: no time is longer than answers can tell, and a time that is not a
    number is 0.
    """
    if milliseconds < LONGEST_MS:
        return int(milliseconds + 0.5)
    return LONGEST_MS if milliseconds >= LONGEST_MS else 0


class TokenBucket:
    """The tokens of an entity. A new bucket is full."""

    __slots__ = ("_at", "_full_at", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # full, whatever the quota is
        self._at = 0
        self._full_at = 0  # as things stood at the last record

    def record(self, tokens: float, quota: float, now: int) -> None:
        """Spend tokens."""
        burst = quota * self._windows.all_ms / 1000
        self._tokens = self._balance(quota, now) - tokens
        self._at = now
        self._full_at = now + (rounded((burst - self._tokens) / quota * 1000) if quota else LONGEST_MS)

    def _balance(self, quota: float, now: int) -> float:
        burst = quota * self._windows.all_ms / 1000
        return burst if self._tokens is None else min(burst, self._tokens + quota * (now - self._at) / 1000)

    def in_debt(self, quota: float, now: int) -> bool:
        return self._balance(quota, now) < 0

    def throttle_ms(self, quota: float, now: int) -> int:
        """Return how long a debt lasts; 0 without a debt, and with a quota of 0, as in Kafka."""
        balance = self._balance(quota, now)
        return rounded(-balance / quota * 1000) if balance < 0 and quota else 0

    def matters(self, now: int) -> bool:
        """Return whether the bucket differs from a new bucket."""
        return now < self._full_at
