"""Names of subjects. `:.context:name` is a subject of that context; others are in the context `.`.

Rule: ids belong to a context, and two contexts know nothing of each other.
"""

from __future__ import annotations

from pykafka_broker.registry.problems import INVALID_SUBJECT

DEFAULT_CONTEXT = "."
ANY_CONTEXT = ":*:"
_GLOBAL = "__GLOBAL"
_EMPTY = "__EMPTY"
_MAX_LENGTH = 4096


def checked(name: str) -> str:
    """Return the name as stored, without the default context. Raises RegistryError."""
    context, rest = split(name)
    plain = rest if context == DEFAULT_CONTEXT else f":{context}:{rest}"
    if not plain or len(plain) > _MAX_LENGTH or rest in (_GLOBAL, _EMPTY) or any(ord(each) < 0x20 for each in name):
        raise INVALID_SUBJECT(name)
    return plain


def split(name: str) -> tuple[str, str]:
    """Split a name into context and name."""
    if name.startswith(":.") and (end := name.find(":", 2)) > 0:
        return name[1:end], name[end + 1 :]
    return DEFAULT_CONTEXT, name


def context_of(name: str) -> str:
    return split(name)[0]


def scopes_of(subject: str | None) -> list[str | None]:
    """Return the scopes from narrow to wide: the subject, the context, all."""
    if subject is None:
        return [None]
    context = context_of(subject)
    return [subject, None] if context == DEFAULT_CONTEXT else [subject, f":{context}:", None]


def beside(name: str, subject: str) -> str:
    """Return the subject of a reference from a schema of `subject`: in the same context by default."""
    context, rest = split(in_context(name, context_of(subject)))
    return rest if context == DEFAULT_CONTEXT else f":{context}:{rest}"


def in_context(name: str, context: str) -> str:
    """Return a name, or the beginning of a name, in a context, unless the name has one of its own."""
    return name if name.startswith((":.", ANY_CONTEXT)) else f":{context}:{name}"


def has_prefix(name: str, prefix: str) -> bool:
    """Return whether a name has a prefix; `:*:` before the prefix is any context."""
    if prefix.startswith(ANY_CONTEXT):
        return split(name)[1].startswith(prefix.removeprefix(ANY_CONTEXT))
    context, rest = split(prefix)
    own_context, own_rest = split(name)
    return own_context == context and own_rest.startswith(rest)
