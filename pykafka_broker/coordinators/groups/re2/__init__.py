"""Regular expressions of subscriptions (KIP-848): RE2's syntax, matched in linear time.

Rule: what is matched is a topic name, so the alphabet is ASCII; and whatever the expression, a name of n characters
costs at most n steps over the expression's states, since nothing is ever tried twice.
"""

from pykafka_broker.coordinators.groups.re2.match import Regex, compile_regex
from pykafka_broker.coordinators.groups.re2.parse import RegexError

__all__ = ["Regex", "RegexError", "compile_regex"]
