"""Regular expressions of Java as regular expressions of Python.

Rule: an expression that Java refuses is refused here, and one that is compiled here matches what Java's
`java.util.regex` (17) matches. Expressions that Python's `re` can not say are refused too, in words: scripts and blocks
of Unicode, the flags d, u, U and x, `\\G`, `\\X`, `\\N`, and look-behinds of no fixed length.

Flags are compiled away: each character that is matched without regard to case is a group `(?i:...)` of its own. A set
of characters becomes an expression for one character, so that intersections and complements are look-aheads.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache
from itertools import groupby

_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_NOT_IN_CRLF = r"(?!(?<=\r)\n)"  # between the two characters no line ends or begins
_LAST_LINE_END = rf"(?:{_NOT_IN_CRLF}(?=(?:\r\n|[{_LINE_ENDS}])?\Z))"
_BLANKS = r"[ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]"
_VERTICAL = r"[\n\x0b\f\r\x85\u2028\u2029]"
_ANY = r"[\s\S]"
_NEVER = "(?!)"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_SETS = {"h": _BLANKS, "v": _VERTICAL, **{name: rf"\{name}" for name in "dws"}}
_ANCHORS = {
    "b": r"(?u:\b)",
    "B": r"(?u:(?!\b))",  # before Python 3.14 its `\B` does not match an empty text
    "A": r"\A",
    "z": r"\Z",
    "Z": _LAST_LINE_END,
    "R": rf"(?:\r\n|{_VERTICAL})",
}
_POSIX = {
    "Lower": "[a-z]",
    "Upper": "[A-Z]",
    "ASCII": r"[\x00-\x7f]",
    "Alpha": "[a-zA-Z]",
    "Digit": "[0-9]",
    "Alnum": "[a-zA-Z0-9]",
    "Punct": r"[!-/:-@\[-`{-~]",
    "Graph": "[!-~]",
    "Print": "[ -~]",
    "Blank": r"[ \t]",
    "Cntrl": r"[\x00-\x1f\x7f]",
    "XDigit": "[0-9a-fA-F]",
    "Space": r"[ \t\n\x0b\f\r]",
}
_CATEGORIES = {"LC": ("Lu", "Ll", "Lt"), "LD": ("L", "Nd")}  # of several; others are what their name begins with
_KNOWN = re.compile("L[ultmo]?|M[nce]?|N[dlo]?|Z[slp]?|C[cfosn]?|P[dsecfio]?|S[mkco]?")
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
_OPENING = re.compile(r"\((?:\?(?:([:=!>]|<[=!])|<([a-zA-Z][a-zA-Z0-9]*)>|([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])))?")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]+)\}|0([0-3]?[0-7]{1,2})")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\[^Q]", re.DOTALL)
_END_OF_NAMED = 0x34000  # of the characters above nearly all are unassigned
_MOST_REPEATS = 2**31 - 1


class JavaRegexError(ValueError):
    """An expression that Java refuses, or that Python can not say."""


@lru_cache(maxsize=256)
def compile_java(text: str) -> re.Pattern[str]:
    """Return an expression of Java, compiled. Raises JavaRegexError."""
    try:
        return re.compile(_Translator(_QUOTED.sub(_unquoted, text)).translate(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise JavaRegexError(str(error)) from None


def _unquoted(found: re.Match[str]) -> str:
    quoted = found[1]
    return found[0] if quoted is None else "".join(each if each.isalnum() else f"\\{each}" for each in quoted)


@cache
def _runs() -> list[tuple[str, int, int]]:
    """Return the categories of all characters: a category with the first and the last character of each run."""
    found, begin = [], 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(_END_OF_NAMED)))):
        end = begin + sum(1 for _ in run)
        found.append((category, begin, end - 1))
        begin = end
    return [*found, ("Cn", begin, sys.maxunicode)]


def _of_category(*names: str) -> str:
    """Return a set of all characters whose category begins with one of these names."""
    runs = (rf"\U{first:08x}-\U{last:08x}" for category, first, last in _runs() if category.startswith(names))
    return f"[{''.join(runs)}]"


def _complement(one: str) -> str:
    return f"(?:(?!{one}){_ANY})"


class _Translator:
    """A pass over an expression, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags = frozenset[str]()
        self._groups = 0
        self._names: set[str] = set()

    def translate(self) -> str:
        found = self._alternatives()
        if self._at < len(self._text):
            raise JavaRegexError("Unmatched closing ')'")
        return found

    # The text

    def _peek(self, size: int = 1) -> str:
        return self._text[self._at : self._at + size]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise JavaRegexError("The expression ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _close_group(self) -> None:
        if self._next() != ")":
            raise JavaRegexError("Missing ')'")

    # Expressions

    def _alternatives(self) -> str:
        """Translate up to the closing parenthesis, or to the end; flags that are set within end there too."""
        flags, found = self._flags, []
        while True:
            found.append(self._sequence())
            if self._peek() != "|":
                break
            self._at += 1
        self._flags = flags
        return "|".join(found)

    def _sequence(self) -> str:
        found = []
        while self._peek() not in ("", "|", ")"):
            atom = self._atom()
            found.append(self._repeated(atom) if atom else "")
        return "".join(found)

    def _repeated(self, atom: str) -> str:
        """Translate the quantifier behind an atom, if any."""
        quantifier = self._match(_QUANTIFIER)
        if quantifier is None:
            return atom
        if any(int(each) > _MOST_REPEATS for each in re.findall("[0-9]+", quantifier[0])):
            raise JavaRegexError("Illegal repetition range")
        kind = self._next() if self._peek() in ("?", "+") else ""
        return f"(?:{atom}){quantifier[0]}{kind}"

    def _atom(self) -> str:
        """Translate what a quantifier may stand behind; nothing for flags and for a repetition of nothing."""
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "{" and _QUANTIFIER.match(self._text, self._at):
            self._repeated("")
            return ""
        self._at += 1
        if char == "[":
            return self._with_case(self._set())
        if char == "\\":
            return self._escape()
        if char == ".":
            return _ANY if "s" in self._flags else f"[^{_LINE_ENDS}]"
        if char == "^":
            return rf"(?:\A|{_NOT_IN_CRLF}(?<=[{_LINE_ENDS}]))(?!\Z)" if "m" in self._flags else r"\A"
        if char == "$":
            return rf"(?:{_NOT_IN_CRLF}(?=[{_LINE_ENDS}])|\Z)" if "m" in self._flags else _LAST_LINE_END
        if char in "*+?{":
            raise JavaRegexError(f"Dangling meta character '{char}'")
        return self._with_case(re.escape(char))

    def _with_case(self, atom: str) -> str:
        return f"(?i:{atom})" if "i" in self._flags else atom

    def _group(self) -> str:
        opening = self._match(_OPENING)
        if opening is None or (opening[0] == "(" and self._peek() == "?"):
            raise JavaRegexError("Unknown group")
        kind, name, on, off, end = opening.groups()
        if end is not None:
            flags = (self._flags | set(on)) - set(off or "")
            if not {*on, *(off or "")} <= {"i", "m", "s"}:
                raise JavaRegexError(f"the flags {on}{off or ''} are not supported")
            if end == ")":
                self._flags = flags
                return ""
            before, self._flags = self._flags, flags
            found = self._alternatives()
            self._flags = before
            self._close_group()
            return f"(?:{found})"
        if kind is None:
            self._groups += 1
        begin = "(" if kind is None else f"(?{kind}"
        if name is not None:
            if name in self._names:
                raise JavaRegexError(f"Named capturing group <{name}> is already defined")
            self._names.add(name)
            begin = f"(?P<{name}>"
        found = self._alternatives()
        self._close_group()
        return f"{begin}{found})"

    def _escape(self) -> str:
        char = self._peek()
        if char and char in "123456789":
            return self._reference()
        if char == "k":
            self._at += 1
            name = self._match(re.compile("<([a-zA-Z][a-zA-Z0-9]*)>"))
            if name is None or name[1] not in self._names:
                raise JavaRegexError("Unknown group of a back reference")
            return self._with_case(f"(?P={name[1]})")
        if char in _ANCHORS:
            self._at += 1
            return _ANCHORS[char]
        one = self._set_escape()
        return self._with_case(self._char_escape() if one is None else one)

    def _reference(self) -> str:
        number = int(self._next())
        while self._peek().isdecimal() and number * 10 + int(self._peek()) <= self._groups:
            number = number * 10 + int(self._next())
        return self._with_case(f"(?:\\{number})") if number <= self._groups else _NEVER

    def _set_escape(self) -> str | None:
        """Translate an escape that stands for several characters; None for another."""
        char = self._peek()
        if char and char in "pP":
            self._at += 1
            name = self._property()
            return _complement(name) if char == "P" else name
        if char.lower() in _SETS:
            self._at += 1
            one = _SETS[char.lower()]
            return one if char.islower() else _complement(one)
        return None

    def _property(self) -> str:
        name = self._next()
        if name == "{":
            name, brace, _ = self._text[self._at :].partition("}")
            if not brace:
                raise JavaRegexError("Unclosed character family")
            self._at += len(name) + 1
        if name in _POSIX:
            return _POSIX[name]
        category = name.removeprefix("Is")
        if category not in _CATEGORIES and not _KNOWN.fullmatch(category):
            raise JavaRegexError(f"the property {name} is not supported")
        if "i" in self._flags and category in _CATEGORIES["LC"]:
            category = "LC"
        return _of_category(*_CATEGORIES.get(category, (category,)))

    def _char_escape(self) -> str:
        """Translate an escape of one character to that character, quoted."""
        found = self._match(_HEX)
        if found is not None:
            code = int(found[4], 8) if found[4] else int(found[1] or found[2] or found[3], 16)
            if code > sys.maxunicode:
                raise JavaRegexError("Hexadecimal codepoint is too big")
            return re.escape(chr(code))
        char = self._next()
        if char == "c":
            return re.escape(chr(ord(self._next()) ^ 64))
        if char in _CONTROLS:
            return re.escape(_CONTROLS[char])
        if char.isascii() and char.isalnum():
            raise JavaRegexError(f"Illegal/unsupported escape sequence \\{char}")
        return re.escape(char)

    # Sets of characters

    def _set(self) -> str:
        """Translate a set behind its opening bracket to an expression for one character."""
        negated = self._peek() == "^"
        self._at += negated
        found, parts = "", list[str]()
        is_first = True
        while True:
            char = self._next()
            if char == "]" and not is_first:
                break
            is_first = False
            if char == "&" and self._peek() == "&":
                self._at += 1
                if self._peek() == "&":
                    raise JavaRegexError("three ampersands in a set are not supported")
                found, parts = _both(found, parts), []
                if self._peek() == "]" and not found:
                    raise JavaRegexError("Bad class syntax")
            elif char == "[":
                parts.append(self._set())
            else:
                self._at -= 1
                parts.append(self._range())
        whole = _both(found, parts)
        return _complement(whole) if negated else whole

    def _range(self) -> str:
        """Translate one character of a set, a range, or an escape for several characters."""
        low, several = self._single()
        if several or self._peek() != "-" or self._peek(2) in ("-]", "-["):
            return several or low
        self._at += 1
        high, several = self._single()
        if several:
            raise JavaRegexError("Illegal character range")
        return f"[{low}-{high}]"

    def _single(self) -> tuple[str, str]:
        """Translate one character of a set, or an escape for several: one of both is empty."""
        if self._peek() != "\\":
            return re.escape(self._next()), ""
        self._at += 1
        several = self._set_escape()
        return ("", several) if several else (self._char_escape(), "")


def _both(found: str, parts: list[str]) -> str:
    """Return the intersection of a set with the union of others; no others change nothing."""
    union = f"(?:{'|'.join(parts)})" if parts else ""
    return f"(?:(?={found}){union})" if found and union else found or union
