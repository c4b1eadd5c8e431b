"""Which flags go together.

Rule: a flag is named here as it is in the options (`if_exists`), and in what is said as it is on the command line.
"""

from __future__ import annotations

from pykafka_broker.tools.frame import Tool, UsageError


def given(tool: Tool, flag: str) -> bool:
    """Whether it was given with a value, or at all for one that takes none."""
    value = getattr(tool.options, flag)
    return not (value is None or value is False or value == [])


def one_of(tool: Tool, *flags: str) -> str:
    """The only one of these that was given. Raises UsageError."""
    found = [flag for flag in flags if given(tool, flag)]
    if len(found) != 1:
        listed = ", ".join(map(_spelt, flags[:-1]))
        raise UsageError(f"Command must include exactly one action: {listed} or {_spelt(flags[-1])}")
    return found[0]


def required(tool: Tool, *flags: str) -> None:
    """All of these. Raises UsageError."""
    for flag in flags:
        if not given(tool, flag):
            raise UsageError(f"Missing required argument {_spelt(flag)}")


def only_with(tool: Tool, flag: str, *others: str) -> None:
    """`flag` makes sense only with one of the others. Raises UsageError."""
    if given(tool, flag) and not any(given(tool, other) for other in others):
        raise UsageError(f"{_spelt(flag)} can only be used with {' or '.join(map(_spelt, others))}")


def never_with(tool: Tool, flag: str, *others: str) -> None:
    """`flag` excludes the others. Raises UsageError."""
    for other in others:
        if given(tool, flag) and given(tool, other):
            raise UsageError(f"{_spelt(flag)} can't be used with {_spelt(other)}")


def _spelt(flag: str) -> str:
    return "--" + flag.replace("_", "-")
