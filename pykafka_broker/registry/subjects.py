"""Names of subjects. `:.context:name` is a subject of that context; others are in the context `.`.

Rule: ids are those of a context, and two contexts know nothing of each other.
"""

from __future__ import annotations

from pykafka_broker.registry.problems import invalid_subject

DEFAULT_CONTEXT = "."
ANY_CONTEXT = ":*:"
_GLOBAL = "__GLOBAL"
_EMPTY = "__EMPTY"
_MAX_LENGTH = 4096


def checked(name: str) -> str:
    """The name as it is kept: one of the context `.` without that. Raises Refused."""
    context, rest = split(name)
    plain = rest if context == DEFAULT_CONTEXT else f":{context}:{rest}"
    if not plain or len(plain) > _MAX_LENGTH or rest in (_GLOBAL, _EMPTY) or any(ord(each) < 0x20 for each in name):
        raise invalid_subject(name)
    return plain


def split(name: str) -> tuple[str, str]:
    """The context and the name in it."""
    if name.startswith(":.") and (end := name.find(":", 2)) > 0:
        return name[1:end], name[end + 1 :]
    return DEFAULT_CONTEXT, name


def context_of(name: str) -> str:
    return split(name)[0]


def beside(name: str, subject: str) -> str:
    """The subject that a reference means which stands in a schema of `subject`: one of the same context, unless it
    says another."""
    context = context_of(subject)
    if context == DEFAULT_CONTEXT or name.startswith(":."):
        return name
    return f":{context}:{name}"


def has_prefix(name: str, prefix: str) -> bool:
    """`:*:` before a prefix is any context."""
    if prefix.startswith(ANY_CONTEXT):
        return split(name)[1].startswith(prefix.removeprefix(ANY_CONTEXT))
    context, rest = split(prefix)
    mine, name = split(name)
    return mine == context and name.startswith(rest)
