"""Which flags go together.

Rule: a flag is named here as it is in the options (`if_exists`), and in what is said as it is on the command line.
"""

from __future__ import annotations

from pykafka_broker.tools.frame import Tool, UsageError


def given(tool: Tool, flag: str) -> bool:
    """Whether it was given with a value, or at all for one that takes none."""
    value = getattr(tool.options, flag)
    return not (value is None or value is False or value == [])


def one_of(tool: Tool, *flags: str, last: str = " or ") -> str:
    """Return the only one of these that was given. last: how the error joins the last of them. Raises UsageError."""
    found = [flag for flag in flags if given(tool, flag)]
    if len(found) != 1:
        listed = ", ".join(map(_spelt, flags[:-1]))
        raise UsageError(f"Command must include exactly one action: {listed}{last}{_spelt(flags[-1])}")
    tool.action = found[0]
    return tool.action


def required(tool: Tool, *flags: str) -> None:
    """All of these. Raises UsageError."""
    for flag in flags:
        if not given(tool, flag):
            if tool.by_argparse4j:
                raise UsageError(f"argument {_spelt(flag)} is required")
            raise UsageError(f'Missing required argument "[{_bare(flag)}]"')


def only_with(tool: Tool, flag: str, *others: str) -> None:
    """Check that `flag` comes with one of these actions. Raises UsageError."""
    if given(tool, flag) and not any(given(tool, other) for other in others):
        raise conflict(flag, tool.action)


def never_with(tool: Tool, flag: str, *others: str) -> None:
    """`flag` excludes the others. Raises UsageError."""
    for other in others:
        if given(tool, flag) and given(tool, other):
            raise conflict(flag, other)


def conflict(flag: str, other: str) -> UsageError:
    """Return what to raise where two flags exclude each other."""
    return UsageError(f'Option "[{_bare(flag)}]" can\'t be used with option "[{_bare(other)}]"')


def _bare(flag: str) -> str:
    return flag.replace("_", "-")


def _spelt(flag: str) -> str:
    return f"--{_bare(flag)}"
