"""What may still be used of a quota: for work that comes in lumps (KIP-599).

Rule: tokens come back at the rate of the quota, up to as many as all windows would give. Whoever has no debt may spend
as many as it needs at once, and then waits until the debt is paid.
"""

from __future__ import annotations

from pykafka_broker.security.quotas.rate import Windows, rounded


class TokenBucket:
    """Of one entity. A new one is full."""

    __slots__ = ("_at", "_full_at", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # full, whatever the quota is
        self._at = 0
        self._full_at = 0  # as things stood at the last record

    def record(self, tokens: float, quota: float, now: int) -> None:
        """They are spent; negative ones are given back."""
        burst = quota * self._windows.all_ms / 1000
        self._tokens = min(burst, self._balance(quota, now) - tokens)
        self._at = now
        self._full_at = now + rounded((burst - self._tokens) / quota * 1000)

    def _balance(self, quota: float, now: int) -> float:
        burst = quota * self._windows.all_ms / 1000
        return burst if self._tokens is None else min(burst, self._tokens + quota * (now - self._at) / 1000)

    def throttle_ms(self, quota: float, now: int) -> int:
        """How long until there is no debt; 0 if there is none."""
        balance = self._balance(quota, now)
        return rounded(-balance / quota * 1000) if balance < 0 else 0

    def matters(self, now: int) -> bool:
        """Whether it differs from a new one."""
        return now < self._full_at
