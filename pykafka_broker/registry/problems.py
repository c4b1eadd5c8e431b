"""Errors of the registry, in the numbers and words of Confluent's REST API.

Rule: an error is called with what its text names: `raise NO_VERSION(3)`.
"""

from __future__ import annotations

from collections.abc import Callable


class RegistryError(Exception):
    """An error answer. The first three digits of `code` are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])

    def body(self) -> dict[str, object]:
        return {"error_code": self.code, "message": self.message}


class Elsewhere(RegistryError):
    """A change for another broker, the leader of the topic; -1 without a leader."""

    def __init__(self, leader: int) -> None:
        said = f"broker {leader} leads _schemas and takes changes" if leader >= 0 else "no broker leads _schemas"
        super().__init__(50003 if leader >= 0 else 50004, f"Error while forwarding the request to the primary: {said}")


class InvalidSchema(Exception):
    """A mistake in the text of a schema."""


def _error(code: int, text: str) -> Callable[..., RegistryError]:
    return lambda *names: RegistryError(code, text.format(*names))


INCOMPATIBLE = _error(
    409, 'Schema being registered is incompatible with an earlier schema for subject "{}", details: [{}]'
)
NO_SUBJECT = _error(40401, "Subject '{}' not found.")
NO_VERSION = _error(40402, "Version {} not found.")
NO_SUCH_SCHEMA = _error(40403, "Schema not found")
NO_SCHEMA = _error(40403, "Schema {} not found")  # named by an id or a GUID
SUBJECT_DELETED = _error(40404, "Subject '{}' was soft deleted.Set permanent=true to delete permanently")
SUBJECT_NOT_DELETED = _error(40405, "Subject '{}' was not deleted first before being permanently deleted")
VERSION_DELETED = _error(40406, "Subject '{}' Version {} was soft deleted.Set permanent=true to delete permanently")
VERSION_NOT_DELETED = _error(40407, "Subject '{}' Version {} was not deleted first before being permanently deleted")
NO_CONFIG = _error(40408, "Subject '{}' does not have subject-level compatibility configured")
NO_MODE = _error(40409, "Subject '{}' does not have subject-level mode configured")
INVALID_SCHEMA = _error(42201, "{}")
INVALID_VERSION = _error(
    42202,
    "The specified version '{}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
    'string "latest"',
)
INVALID_LEVEL = _error(
    42203,
    "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive",
)
INVALID_MODE = _error(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.")
NOT_PERMITTED = _error(42205, "{}")
REFERRED_TO = _error(
    42206, "One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={},version={}}}."
)
INVALID_SUBJECT = _error(42208, "The specified subject '{}' is not a valid subject.")
TOO_LARGE = _error(42209, "Schema is too large")
INVALID_RULE_SET = _error(42210, "Invalid ruleset: {}")
STORE_FAILED = _error(50001, "Error in the backend data store: {}")
