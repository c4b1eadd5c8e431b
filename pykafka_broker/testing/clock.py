"""The broker's clock in the hands of a test."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pykafka_broker.testing.control_client import ControlClient, told_to_the_test
from pykafka_broker.testing.handle import Handle

__tracebackhide__ = told_to_the_test

_LONG_S = 600.0


class Clock(Handle):
    """What time it is for the broker. Everything that it does by time follows this clock."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    @property
    def control(self) -> ControlClient:
        return self._control

    def __repr__(self) -> str:
        return f"<Clock of {self._control.url}>"

    def now(self) -> int:
        """The time that a record would get now, in epoch milliseconds."""
        return int(self._control.call("GET", "/clock")["now_ms"])

    @property
    def frozen(self) -> bool:
        """Whether it stands."""
        return bool(self._control.call("GET", "/clock")["frozen"])

    def advance(
        self,
        by: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> int:
        """Move the clock on. All that falls due on the way has been done when this returns, each at its own time.
        Returns the new time.
        """
        whole = timedelta(days, seconds, 0, milliseconds, minutes, hours, weeks)
        if by is not None:
            if not isinstance(by, timedelta):
                raise TypeError(f"advance({by!r}) of what? advance(seconds={by!r}), or a timedelta")
            whole += by
        elif not whole:
            raise TypeError("advance by how much? advance(minutes=10), or a timedelta")
        return self._moved("advance", {"ms": round(whole / timedelta(milliseconds=1))})

    def freeze(self) -> int:
        """Let it stand. Returns the time at which it does."""
        return self._moved("freeze")

    def resume(self) -> int:
        """Let it run on from where it stands."""
        return self._moved("resume")

    def set(self, now: datetime | int) -> int:
        """It is that time: a datetime, or epoch milliseconds. Forwards it is as if that time went by; backwards only
        the timestamps of records go back.
        """
        now_ms = round(now.timestamp() * 1000) if isinstance(now, datetime) else now
        return self._moved("set", {"now_ms": now_ms})

    def _moved(self, how: str, body: dict[str, Any] | None = None) -> int:
        return int(self._control.call("POST", f"/clock/{how}", body, timeout_s=_LONG_S)["now_ms"])


class HasClock(Handle):
    """A broker whose time can be moved."""

    @property
    def clock(self) -> Clock:
        """The broker's clock: `broker.clock.advance(minutes=10)`."""
        return Clock(self.control)
