"""From the tree to an automaton, and the matching.

Rule: all ways through the expression are walked at once, so no name makes it go back. Sets of states that have been
seen are remembered, up to a limit, as one state of a deterministic automaton.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups.re2 import charset
from pykafka_broker.coordinators.groups.re2.parse import (
    Alternate,
    Assertion,
    Chars,
    Concat,
    Node,
    RegexError,
    Repeat,
    parse,
)

MAX_STATES = 20_000
MAX_REMEMBERED = 5_000
TOO_LARGE = "expression is too large"

END = -1  # stands for the character after the last one
MATCH, CHARS, SPLIT, ASSERT = range(4)


def compile_regex(pattern: str) -> Regex:
    """Raises RegexError."""
    builder = _Builder()
    return Regex(builder.program, builder.add(parse(pattern), builder.emit(MATCH, 0, 0, 0)))


class _Builder:
    """Writes the program backwards: each piece is told where it goes on."""

    def __init__(self) -> None:
        # (operation, set or assertion, next, other next)
        self.program: list[tuple[int, int | str, int, int]] = []

    def emit(self, operation: int, what: int | str, first: int, second: int) -> int:
        if len(self.program) >= MAX_STATES:
            raise RegexError(TOO_LARGE)
        self.program.append((operation, what, first, second))
        return len(self.program) - 1

    def add(self, node: Node, then: int) -> int:
        """Where the piece for `node` begins that goes on at `then`."""
        if isinstance(node, Chars):
            return self.emit(CHARS, node.mask, then, 0)
        if isinstance(node, Assertion):
            return self.emit(ASSERT, node.kind, then, 0)
        if isinstance(node, Concat):
            for item in reversed(node.items):
                then = self.add(item, then)
            return then
        if isinstance(node, Alternate):
            start = self.add(node.items[-1], then)
            for item in reversed(node.items[:-1]):
                start = self.emit(SPLIT, 0, self.add(item, then), start)
            return start
        return self._add_repeat(node, then)

    def _add_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self.emit(SPLIT, 0, 0, then)
            self.program[loop] = (SPLIT, 0, self.add(node.item, loop), then)
            start = loop
        else:
            start = then
            for _ in range(node.most - node.least):
                start = self.emit(SPLIT, 0, self.add(node.item, start), then)
        for _ in range(node.least):
            start = self.add(node.item, start)
        return start


class Regex:
    """A compiled expression."""

    def __init__(self, program: list[tuple[int, int | str, int, int]], start: int) -> None:
        self._program = program
        self._start = (frozenset((start,)), END)
        self._remembered: dict[tuple[tuple[frozenset[int], int], int], tuple[frozenset[int], int] | bool] = {}

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole of `name`."""
        state = self._start
        for char in name:
            following = self._follow(state, ord(char))
            assert not isinstance(following, bool)
            if not following[0]:
                return False
            state = following
        return self._follow(state, END) is True

    def _follow(self, state: tuple[frozenset[int], int], code: int) -> tuple[frozenset[int], int] | bool:
        key = (state, code)
        following = self._remembered.get(key)
        if following is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            following = self._remembered[key] = self._step(state, code)
        return following

    def _step(self, state: tuple[frozenset[int], int], code: int) -> tuple[frozenset[int], int] | bool:
        """Where the states go with this character; at the end, whether one of them is the match."""
        program, previous = self._program, state[1]
        reached: set[int] = set()
        matched = False
        seen = set(state[0])
        todo = list(state[0])
        while todo:
            operation, what, first, second = program[todo.pop()]
            goes_on: tuple[int, ...] = ()
            if operation == MATCH:
                matched = True
            elif operation == CHARS:
                assert isinstance(what, int)
                if 0 <= code < 128 and what >> code & 1:
                    reached.add(first)
            elif operation == SPLIT:
                goes_on = (first, second)
            elif _holds(str(what), previous, code):
                goes_on = (first,)
            for index in goes_on:
                if index not in seen:
                    seen.add(index)
                    todo.append(index)
        if code == END:
            return matched
        return frozenset(reached), _kind_of(code)


def _kind_of(code: int) -> int:
    """As much of a character as the assertions behind it look at: so that states are not told apart for nothing."""
    if code == ord("\n"):
        return code
    return ord("w") if _is_word(code) else ord("-")


def _is_word(code: int) -> bool:
    return 0 <= code < 128 and bool(charset.WORD >> code & 1)


def _holds(kind: str, previous: int, code: int) -> bool:
    newline = ord("\n")
    if kind == "begin":
        return previous == END
    if kind == "end":
        return code == END
    if kind == "begin-line":
        return previous in (END, newline)
    if kind == "end-line":
        return code in (END, newline)
    return (_is_word(previous) != _is_word(code)) == (kind == "word")
