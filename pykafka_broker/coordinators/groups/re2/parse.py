"""From the text of an expression to a tree.

Rule: the syntax is RE2's (https://github.com/google/re2/wiki/Syntax) as Kafka's library takes it, and what that library
refuses is refused with its words. Captures are groups like others: nobody asks what they held.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.coordinators.groups.re2 import charset

MAX_REPEAT = 1000
MAX_DEPTH = 100

INTERNAL = "regexp/syntax: internal error"
CHAR_RANGE = "invalid character class range"
ESCAPE = "invalid escape sequence"
NAMED_CAPTURE = "invalid named capture"
PERL_OPERATOR = "invalid or unsupported Perl syntax"
NESTED_REPEAT = "invalid nested repetition operator"
REPEAT_COUNT = "invalid repeat count"
NO_BRACKET = "missing closing ]"
NO_PAREN = "missing closing )"
NO_ARGUMENT = "missing argument to repetition operator"
TRAILING_BACKSLASH = "trailing backslash at end of expression"
DUPLICATE_NAME = "duplicate capture group name"
TOO_DEEP = "expression nests too deeply"

ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
ASSERTIONS = {"A": "begin", "z": "end", "b": "word", "B": "not-word"}


class RegexError(ValueError):
    """The expression is not one; the text is what Kafka's library says of it."""


class Chars(NamedTuple):
    """One character of a set."""

    mask: int


class Assertion(NamedTuple):
    """A place: begin, end, begin-line, end-line, word, not-word."""

    kind: str


class Concat(NamedTuple):
    items: tuple[Node, ...]


class Alternate(NamedTuple):
    items: tuple[Node, ...]


class Repeat(NamedTuple):
    """`most` None: without end."""

    item: Node
    least: int
    most: int | None


Node = Chars | Assertion | Concat | Alternate | Repeat
EMPTY = Concat(())


class Flags(NamedTuple):
    """(?ims); whether a repetition is greedy (U) does not change what matches."""

    fold: bool = False
    multi_line: bool = False
    dot_all: bool = False


class _Open:
    """A group that has not been closed: its alternatives so far and the one that grows."""

    __slots__ = ("alternatives", "flags", "items")

    def __init__(self, flags: Flags) -> None:
        self.flags = flags  # those outside, which come back with the closing bracket
        self.alternatives: list[Node] = []
        self.items: list[Node] = []

    def close(self) -> Node:
        last = Concat(tuple(self.items))
        return Alternate((*self.alternatives, last)) if self.alternatives else last


def parse(text: str) -> Node:
    """Raises RegexError."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = Flags()
        self._open = [_Open(self._flags)]
        self._names: set[str] = set()
        self._repeated = False  # the last thing was a repetition: another one can't follow at once

    def run(self) -> Node:
        while self._at < len(self._text):
            self._next()
        if len(self._open) > 1:
            raise RegexError(NO_PAREN)
        return self._open[0].close()

    # Characters

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self) -> str:
        char = self._text[self._at]
        self._at += 1
        return char

    def _add(self, node: Node) -> None:
        self._open[-1].items.append(node)

    def _add_char(self, code: int) -> None:
        self._add(Chars(self._one(code)))

    def _one(self, code: int) -> int:
        if not self._flags.fold:
            return charset.one(code)
        return charset.fold(charset.chars(charset.FOLDS_TO_ASCII.get(code, chr(code))))

    # What may come next

    def _next(self) -> None:
        char = self._take()
        if char in "*+?" or (char == "{" and self._count_follows()):
            self._repeat(char)
            return
        self._repeated = False
        if char == "(":
            self._open_group()
        elif char == ")":
            self._close_group()
        elif char == "|":
            group = self._open[-1]
            group.alternatives.append(Concat(tuple(group.items)))
            group.items = []
        elif char == "[":
            self._add(Chars(self._char_class()))
        elif char == "\\":
            self._escape()
        elif char == ".":
            everything = charset.EVERYTHING
            self._add(Chars(everything if self._flags.dot_all else everything & ~charset.NEWLINE))
        elif char == "^":
            self._add(Assertion("begin-line" if self._flags.multi_line else "begin"))
        elif char == "$":
            self._add(Assertion("end-line" if self._flags.multi_line else "end"))
        else:
            self._add_char(ord(char))
            self._repeated = char == "{"  # Kafka's library takes it for a repetition that failed

    # Repetitions

    def _count_follows(self) -> bool:
        end = self._text.find("}", self._at)
        if end < 0:
            return False
        least, comma, most = self._text[self._at : end].partition(",")
        return _is_number(least) and (not most or (comma != "" and _is_number(most)))

    def _repeat(self, char: str) -> None:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char) or self._count()
        if self._peek("?"):  # a lazy one matches the same names
            self._at += 1
        items = self._open[-1].items
        if self._repeated:
            raise RegexError(NESTED_REPEAT)
        if not items:
            raise RegexError(NO_ARGUMENT)
        items.append(Repeat(items.pop(), least, most))
        self._repeated = True

    def _count(self) -> tuple[int, int | None]:
        end = self._text.index("}", self._at)
        first, comma, last = self._text[self._at : end].partition(",")
        self._at = end + 1
        least = int(first)
        most = least if not comma else int(last) if last else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise RegexError(REPEAT_COUNT)
        return least, most

    # Groups

    def _open_group(self) -> None:
        outside = self._flags
        if self._peek("?") and not self._special_group():
            return
        if len(self._open) > MAX_DEPTH:
            raise RegexError(TOO_DEEP)
        self._open.append(_Open(outside))

    def _special_group(self) -> bool:
        """What follows `(?`; False if it only sets flags and opens nothing."""
        self._at += 1
        if self._peek("P<") or self._peek("<"):
            self._at += 2 if self._peek("P<") else 1
            self._name()
            return True
        flags, value, any_flag = self._flags, True, False
        while self._at < len(self._text):
            char = self._take()
            if char == "i":
                flags = flags._replace(fold=value)
            elif char == "m":
                flags = flags._replace(multi_line=value)
            elif char == "s":
                flags = flags._replace(dot_all=value)
            elif char == "-" and value:
                value, any_flag = False, False
                continue
            elif char in ":)":
                if not value and not any_flag:
                    break
                self._flags = flags
                return char == ":"
            elif char != "U":
                break
            any_flag = True
        raise RegexError(PERL_OPERATOR)

    def _name(self) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        if not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
            raise RegexError(NAMED_CAPTURE)
        if name in self._names:
            raise RegexError(DUPLICATE_NAME)
        self._names.add(name)
        self._at = end + 1

    def _close_group(self) -> None:
        if len(self._open) == 1:
            raise RegexError(INTERNAL)
        group = self._open.pop()
        self._flags = group.flags
        self._add(group.close())

    # Escapes

    def _escape(self) -> None:
        if self._at == len(self._text):
            raise RegexError(TRAILING_BACKSLASH)
        char = self._text[self._at]
        if char == "Q":
            end = self._text.find("\\E", self._at)
            stop = len(self._text) if end < 0 else end
            for literal in self._text[self._at + 1 : stop]:
                self._add_char(ord(literal))
            self._at = stop if end < 0 else stop + 2
        elif char in ASSERTIONS:
            self._at += 1
            self._add(Assertion(ASSERTIONS[char]))
        elif (mask := self._class_escape()) is not None:
            self._add(Chars(mask))
        else:
            self._add_char(self._char_escape())

    def _class_escape(self) -> int | None:
        """The set that an escape stands for, if it stands for one; `_at` is behind the backslash."""
        char = self._text[self._at] if self._at < len(self._text) else ""
        if char.lower() in charset.PERL and char:
            self._at += 1
            mask = charset.PERL[char.lower()]
            return charset.negate(mask) if char.isupper() else mask
        if char in ("p", "P"):
            self._at += 1
            return self._unicode_class(char == "P")
        return None

    def _unicode_class(self, negated: bool) -> int:
        name = self._text[self._at : self._at + 1]
        self._at += 1
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise RegexError(CHAR_RANGE)
            name = self._text[self._at : end]
            self._at = end + 1
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name not in charset.UNICODE:
            raise RegexError(CHAR_RANGE)
        mask = charset.UNICODE[name]
        if self._flags.fold:
            mask = charset.FOLDED_LL if name == "Ll" else charset.fold(mask)
        return charset.negate(mask) if negated else mask

    def _char_escape(self) -> int:
        """The one character that an escape stands for."""
        if self._at == len(self._text):
            raise RegexError(TRAILING_BACKSLASH)
        char = self._take()
        if char in ESCAPES:
            return ESCAPES[char]
        if char == "x":
            return self._hex()
        if char in "01234567":
            if char != "0" and self._text[self._at : self._at + 1] not in tuple("01234567"):
                raise RegexError(ESCAPE)  # it would be a back-reference
            digits = char
            while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
                digits += self._take()
            return int(digits, 8)
        if not (char.isascii() and char.isalnum()):
            return ord(char)
        raise RegexError(ESCAPE)

    def _hex(self) -> int:
        if self._peek("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : end] if end >= 0 else ""
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            if len(digits) < 2:
                digits = ""
        if not digits or not all(char in "0123456789abcdefABCDEF" for char in digits) or int(digits, 16) > 0x10FFFF:
            raise RegexError(ESCAPE)
        return int(digits, 16)

    # Character classes

    def _char_class(self) -> int:
        negated = self._peek("^")
        self._at += negated
        mask, first = 0, True
        while first or not self._peek("]"):
            if self._at >= len(self._text):
                raise RegexError(NO_BRACKET)
            first = False
            mask |= self._class_item()
        self._at += 1
        return charset.negate(mask) if negated else mask

    def _class_item(self) -> int:
        if self._peek("[:"):
            end = self._text.find(":]", self._at + 2)
            if end >= 0:
                name = self._text[self._at + 2 : end]
                mask = charset.POSIX.get(name.removeprefix("^"))
                if mask is None:
                    raise RegexError(CHAR_RANGE)
                self._at = end + 2
                mask = charset.fold(mask) if self._flags.fold else mask
                return charset.negate(mask) if name.startswith("^") else mask
        if self._peek("\\"):
            self._at += 1
            mask_or_none = self._class_escape()
            if mask_or_none is not None:
                return mask_or_none
            self._at -= 1
        low = self._class_char()
        if not self._peek("-") or self._peek("-]"):
            return self._one(low)
        self._at += 1
        if self._at >= len(self._text):
            raise RegexError(NO_BRACKET)
        high = self._class_char()
        if high < low:
            raise RegexError(CHAR_RANGE)
        mask = charset.span(low, high)
        if self._flags.fold:
            for code, letter in charset.FOLDS_TO_ASCII.items():
                mask |= charset.chars(letter) if low <= code <= high else 0
            mask = charset.fold(mask)
        return mask

    def _class_char(self) -> int:
        char = self._take()
        return self._char_escape() if char == "\\" else ord(char)


def _is_number(text: str) -> bool:
    """A count as RE2 takes it: no sign, no leading zero."""
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
