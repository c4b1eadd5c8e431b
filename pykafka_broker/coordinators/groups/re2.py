"""Regular expressions of subscriptions (KIP-848): RE2's syntax, matched in linear time.

Rule: the subject of a match is a topic name, so the alphabet is ASCII: no set has a character outside it. The syntax is
RE2's (https://github.com/google/re2/wiki/Syntax) as Kafka's library takes it; an expression that the library refuses is
refused in the library's words. A match follows all ways through the expression at once: a name of n characters costs at
most n steps over the expression's states. All names together cost at most `MAX_WORK`: other clients wait meanwhile.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

# Sets of ASCII characters as integers, bit n for the character n


EVERYTHING = (1 << 128) - 1
NEWLINE = 1 << ord("\n")
FOLDS_TO_ASCII = {0x212A: "k", 0x017F: "s"}  # the Kelvin sign and the long s


def span(low: int, high: int) -> int:
    """Return all characters from `low` to `high`."""
    high = min(high, 127)
    return 0 if low > high else (1 << high + 1) - (1 << low)


def single(code: int) -> int:
    return span(code, code)


def chars(text: str) -> int:
    mask = 0
    for char in text:
        mask |= single(ord(char))
    return mask


UPPER = span(ord("A"), ord("Z"))
LOWER = span(ord("a"), ord("z"))
DIGIT = span(ord("0"), ord("9"))
WORD = UPPER | LOWER | DIGIT | chars("_")
SPACE = chars("\t\n\f\r ")
CASE_DISTANCE = ord("a") - ord("A")


def fold(mask: int) -> int:
    """Return the set with all letters in both cases."""
    return mask | (mask & UPPER) << CASE_DISTANCE | (mask & LOWER) >> CASE_DISTANCE


def negate(mask: int) -> int:
    return EVERYTHING & ~mask


POSIX = {
    "alnum": UPPER | LOWER | DIGIT,
    "alpha": UPPER | LOWER,
    "ascii": EVERYTHING,
    "blank": chars("\t "),
    "cntrl": span(0, 31) | single(127),
    "digit": DIGIT,
    "graph": span(33, 126),
    "lower": LOWER,
    "print": span(32, 126),
    "punct": span(33, 47) | span(58, 64) | span(91, 96) | span(123, 126),
    "space": chars("\t\n\v\f\r "),
    "upper": UPPER,
    "word": WORD,
    "xdigit": DIGIT | chars("abcdefABCDEF"),
}

PERL = {"d": DIGIT, "s": SPACE, "w": WORD}

# General categories with ASCII characters; the other categories are known and empty.
_CATEGORIES = {
    "L": UPPER | LOWER,
    "Lu": UPPER,
    "Ll": LOWER,
    "N": DIGIT,
    "Nd": DIGIT,
    "P": chars("!\"#%&'()*,-./:;?@[\\]_{}"),
    "Pc": chars("_"),
    "Pd": chars("-"),
    "Ps": chars("([{"),
    "Pe": chars(")]}"),
    "Po": chars("!\"#%&'*,./:;?@\\"),
    "S": chars("$+<=>^`|~"),
    "Sc": chars("$"),
    "Sk": chars("^`"),
    "Sm": chars("+<=>|~"),
    "Z": chars(" "),
    "Zs": chars(" "),
    "C": span(0, 31) | single(127),
    "Cc": span(0, 31) | single(127),
    "Any": EVERYTHING,
    "Latin": UPPER | LOWER,
    "Common": EVERYTHING & ~(UPPER | LOWER),
}
_EMPTY_CATEGORIES = "Lm Lo Lt M Mc Me Mn Nl No Pf Pi So Zl Zp Cf Co Cs"
_SCRIPTS = """
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian
Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic
Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha Limbu Linear_B Lisu
Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian
Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala
Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
Ugaritic Unknown Vai Yi
"""
# Without regard to case, the set of lower-case letters gets these two upper-case letters and no others.
FOLDED_LL = LOWER | chars("KS")
UNICODE = {**dict.fromkeys(f"{_EMPTY_CATEGORIES} {_SCRIPTS}".split(), 0), **_CATEGORIES}


# From the text of an expression to a tree


MAX_REPEAT = 1000
_REPEAT_DIGITS = len(str(MAX_REPEAT))
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_COUNT = re.compile(r"(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")  # of a repetition, behind its opening brace
MAX_DEPTH = 100
MAX_LENGTH = 100_000  # which are read in a tenth of a second, while all other clients wait

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
TOO_LARGE = "expression is too large"

ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
ASSERTIONS = {"A": "begin", "z": "end", "b": "word", "B": "not-word"}


class RegexError(ApiError):
    """An expression that is not served; the message is that of Kafka's library."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REGULAR_EXPRESSION, message)


class Chars(NamedTuple):
    """A character of a set."""

    mask: int


class Assertion(NamedTuple):
    """A position: begin, end, begin-line, end-line, word, not-word."""

    kind: str


class Concat(NamedTuple):
    items: tuple[Node, ...]


class Alternate(NamedTuple):
    items: tuple[Node, ...]


class Repeat(NamedTuple):
    """A repetition; `most` None: without end."""

    item: Node
    least: int
    most: int | None


Node = Chars | Assertion | Concat | Alternate | Repeat
EMPTY = Concat(())


class Flags(NamedTuple):
    """The flags (?ims). Greediness (U) does not change matches."""

    fold: bool = False
    multi_line: bool = False
    dot_all: bool = False


class _Open:
    """An open group: the alternatives so far, and the items of the last alternative."""

    __slots__ = ("alternatives", "flags", "items")

    def __init__(self, flags: Flags) -> None:
        self.flags = flags  # the flags outside, valid again behind the closing bracket
        self.alternatives: list[Node] = []
        self.items: list[Node] = []

    def end_alternative(self) -> Node:
        """Return the last alternative, without items that match only the empty text.

        So each node of the tree becomes a state, and a repetition is added in a time that `MAX_STATES` bounds.
        """
        items, self.items = tuple(item for item in self.items if item is not EMPTY), []
        return (Concat(items) if items else EMPTY) if len(items) != 1 else items[0]

    def close(self) -> Node:
        last = self.end_alternative()
        return Alternate((*self.alternatives, last)) if self.alternatives else last


def parse(text: str) -> Node:
    """Return the tree of an expression. Raises RegexError."""
    if len(text) > MAX_LENGTH:
        raise RegexError(TOO_LARGE)
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last_posix_end = text.rfind(":]")
        self._flags = Flags()
        self._open = [_Open(self._flags)]
        self._names: set[str] = set()
        self._repeated = False  # the last piece was a repetition: a second repetition can't follow at once

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
            return single(code)
        return fold(chars(FOLDS_TO_ASCII.get(code, chr(code))))

    # What may come next

    def _next(self) -> None:
        char = self._take()
        bounds = self._count() if char == "{" else _REPEATS.get(char)
        if bounds is not None:
            self._repeat(*bounds)
            return
        self._repeated = False
        if char == "(":
            self._open_group()
        elif char == ")":
            self._close_group()
        elif char == "|":
            group = self._open[-1]
            group.alternatives.append(group.end_alternative())
        elif char == "[":
            self._add(Chars(self._char_class()))
        elif char == "\\":
            self._escape()
        elif char == ".":
            self._add(Chars(EVERYTHING if self._flags.dot_all else EVERYTHING & ~NEWLINE))
        elif char == "^":
            self._add(Assertion("begin-line" if self._flags.multi_line else "begin"))
        elif char == "$":
            self._add(Assertion("end-line" if self._flags.multi_line else "end"))
        else:
            self._add_char(ord(char))
            self._repeated = char == "{"  # Kafka's library reads a repetition that failed

    # Repetitions

    def _count(self) -> tuple[int, int | None] | None:
        """Read the rest of a count. Returns None for a brace that begins no count and stands for itself."""
        found = _COUNT.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        first, comma, last = found.groups(default="")
        if max(len(first), len(last)) > _REPEAT_DIGITS:
            raise RegexError(REPEAT_COUNT)
        least = int(first)
        most = least if not comma else int(last) if last else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise RegexError(REPEAT_COUNT)
        return least, most

    def _repeat(self, least: int, most: int | None) -> None:
        if self._peek("?"):  # a lazy repetition matches the same names
            self._at += 1
        items = self._open[-1].items
        if self._repeated:
            raise RegexError(NESTED_REPEAT)
        if not items:
            raise RegexError(NO_ARGUMENT)
        if items[-1] is not EMPTY and (least, most) != (1, 1):
            items[-1] = Repeat(items[-1], least, most) if most != 0 else EMPTY
        self._repeated = True

    # Groups

    def _open_group(self) -> None:
        outside = self._flags
        if self._peek("?") and not self._special_group():
            return
        if len(self._open) > MAX_DEPTH:
            raise RegexError(TOO_DEEP)
        self._open.append(_Open(outside))

    def _special_group(self) -> bool:
        """Read the rest of `(?`; False if the rest only sets flags."""
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
        """Read an escape for a set, with `_at` behind the backslash. Returns None for another escape."""
        char = self._text[self._at] if self._at < len(self._text) else ""
        if char.lower() in PERL and char:
            self._at += 1
            mask = PERL[char.lower()]
            return negate(mask) if char.isupper() else mask
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
        if name not in UNICODE:
            raise RegexError(CHAR_RANGE)
        mask = UNICODE[name]
        if self._flags.fold:
            mask = FOLDED_LL if name == "Ll" else fold(mask)
        return negate(mask) if negated else mask

    def _char_escape(self) -> int:
        """Read an escape for a character."""
        if self._at == len(self._text):
            raise RegexError(TRAILING_BACKSLASH)
        char = self._take()
        if char in ESCAPES:
            return ESCAPES[char]
        if char == "x":
            return self._hex()
        if char in "01234567":
            if char != "0" and self._text[self._at : self._at + 1] not in tuple("01234567"):
                raise RegexError(ESCAPE)  # a back-reference
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
        return negate(mask) if negated else mask

    def _class_item(self) -> int:
        if self._peek("[:") and self._at + 2 <= self._last_posix_end:
            end = self._text.index(":]", self._at + 2)
            name = self._text[self._at + 2 : end]
            mask = POSIX.get(name.removeprefix("^"))
            if mask is None:
                raise RegexError(CHAR_RANGE)
            self._at = end + 2
            mask = fold(mask) if self._flags.fold else mask
            return negate(mask) if name.startswith("^") else mask
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
        mask = span(low, high)
        if self._flags.fold:
            for code, letter in FOLDS_TO_ASCII.items():
                mask |= chars(letter) if low <= code <= high else 0
            mask = fold(mask)
        return mask

    def _class_char(self) -> int:
        char = self._take()
        return self._char_escape() if char == "\\" else ord(char)


# From the tree to an automaton, and the matching


MAX_STATES = 20_000
MAX_WORK = 500_000  # states looked at: 0.15 s, and 40 MB of remembered sets
MAX_REMEMBERED = 5_000

END = -1  # stands for the character after the last one
MATCH, CHARS, SPLIT, ASSERT = range(4)


def compile_regex(pattern: str) -> Regex:
    """Return the compiled expression. Raises RegexError."""
    builder = _Builder()
    return Regex(builder.program, builder.add(parse(pattern), builder.emit(MATCH, 0, 0, 0)))


class _Builder:
    """The writer of a program, from the end to the beginning: a piece gets the index of the next piece."""

    def __init__(self) -> None:
        # (operation, set or assertion, next, other next)
        self.program: list[tuple[int, int | str, int, int]] = []

    def emit(self, operation: int, what: int | str, first: int, second: int) -> int:
        if len(self.program) >= MAX_STATES:
            raise RegexError(TOO_LARGE)
        self.program.append((operation, what, first, second))
        return len(self.program) - 1

    def add(self, node: Node, then: int) -> int:
        """Emit the piece for `node` before the piece at `then`. Returns the index of the first instruction."""
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
    """A compiled expression. work: the number of states that were made and looked at."""

    def __init__(self, program: list[tuple[int, int | str, int, int]], start: int) -> None:
        self._program = program
        self._start = (frozenset((start,)), END)
        self._remembered: dict[tuple[tuple[frozenset[int], int], int], tuple[frozenset[int], int] | bool] = {}
        self.work = len(program)

    def matches(self, name: str) -> bool:
        """Return whether the expression matches the whole of `name`.

        Raises RegexError once the names that it was asked for have cost `MAX_WORK`.
        """
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
        """Return the states after a character; at the end, whether a state is the match."""
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
        self.work += len(seen)
        if self.work > MAX_WORK:
            raise RegexError(TOO_LARGE)
        if code == END:
            return matched
        return frozenset(reached), _kind_of(code)


def _kind_of(code: int) -> int:
    """Return the part of a character seen by assertions: equal states stay equal."""
    if code == ord("\n"):
        return code
    return ord("w") if _is_word(code) else ord("-")


def _is_word(code: int) -> bool:
    return 0 <= code < 128 and bool(WORD >> code & 1)


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
