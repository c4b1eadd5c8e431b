"""Sets of ASCII characters as integers, bit n for the character n.

Rule: a character outside ASCII is in no set: no topic name has it. Those that fold to ASCII letters without regard to
case are the two that Unicode names.
"""

from __future__ import annotations

EVERYTHING = (1 << 128) - 1
NEWLINE = 1 << ord("\n")
FOLDS_TO_ASCII = {0x212A: "k", 0x017F: "s"}  # the Kelvin sign and the long s


def span(low: int, high: int) -> int:
    """All characters from `low` to `high`."""
    high = min(high, 127)
    return 0 if low > high else (1 << high + 1) - (1 << low)


def one(code: int) -> int:
    return span(code, code)


def chars(text: str) -> int:
    mask = 0
    for char in text:
        mask |= one(ord(char))
    return mask


UPPER = span(ord("A"), ord("Z"))
LOWER = span(ord("a"), ord("z"))
DIGIT = span(ord("0"), ord("9"))
WORD = UPPER | LOWER | DIGIT | chars("_")
SPACE = chars("\t\n\f\r ")
CASE_DISTANCE = ord("a") - ord("A")


def fold(mask: int) -> int:
    """The set, and its letters in the other case."""
    return mask | (mask & UPPER) << CASE_DISTANCE | (mask & LOWER) >> CASE_DISTANCE


def negate(mask: int) -> int:
    return EVERYTHING & ~mask


POSIX = {
    "alnum": UPPER | LOWER | DIGIT,
    "alpha": UPPER | LOWER,
    "ascii": EVERYTHING,
    "blank": chars("\t "),
    "cntrl": span(0, 31) | one(127),
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

# General categories, as far as ASCII has them; the others are known and empty.
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
    "C": span(0, 31) | one(127),
    "Cc": span(0, 31) | one(127),
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
# Where case does not count, lower-case letters get these two as their partners outside ASCII do, and no others.
FOLDED_LL = LOWER | chars("KS")
UNICODE = {**dict.fromkeys(f"{_EMPTY_CATEGORIES} {_SCRIPTS}".split(), 0), **_CATEGORIES}
