"""Version ranges. Rule: a range is closed and may be empty; `3+` has no upper end, `none` holds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

UNBOUNDED = 32767  # versions travel as int16


@dataclass(frozen=True)
class Versions:
    """The versions from `low` to `high`, both included; empty when `high < low`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        """Return the versions in a text: "2", "2-5", "2+" or "none"; None means none too."""
        if text is None or text == "none":
            return NONE
        if text.endswith("+"):
            return cls(int(text[:-1]), UNBOUNDED)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == UNBOUNDED:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    def below(self, version: int) -> Versions:
        """Return the part of the range below `version`."""
        return Versions(self.low, min(self.high, version - 1))


NONE = Versions(0, -1)
