"""What the registry refuses, in the numbers and words of Confluent's REST API."""

from __future__ import annotations


class Refused(Exception):
    """The answer is an error. The first three digits of `code` are the status of HTTP."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])

    def body(self) -> dict[str, object]:
        return {"error_code": self.code, "message": self.message}


class Elsewhere(Refused):
    """Another broker leads the topic, and takes what is to be changed; -1 is nobody."""

    def __init__(self, leader: int) -> None:
        said = f"broker {leader} leads _schemas and takes changes" if leader >= 0 else "no broker leads _schemas"
        super().__init__(50003 if leader >= 0 else 50004, f"Error while forwarding the request to the primary: {said}")


class InvalidSchema(Exception):
    """A text is no schema of its language; what is wrong with it."""


def no_subject(subject: str) -> Refused:
    return Refused(40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> Refused:
    return Refused(40402, f"Version {version} not found.")


def no_schema(named: int | str | None = None) -> Refused:
    """By its id or its GUID; without one no schema is as it was asked for."""
    return Refused(40403, "Schema not found" if named is None else f"Schema {named} not found")


def subject_deleted(subject: str) -> Refused:
    return Refused(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> Refused:
    return Refused(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )


def version_not_deleted(subject: str, version: int) -> Refused:
    return Refused(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_config(subject: str) -> Refused:
    return Refused(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> Refused:
    return Refused(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> Refused:
    return Refused(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(details)}]",
    )


def invalid_schema(message: str) -> Refused:
    return Refused(42201, message)


def invalid_version(text: str) -> Refused:
    return Refused(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level() -> Refused:
    return Refused(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode() -> Refused:
    return Refused(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.")


def not_permitted(message: str) -> Refused:
    return Refused(42205, message)


def referred_to(subject: str, version: int) -> Refused:
    return Refused(
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> Refused:
    return Refused(42208, f"The specified subject '{subject}' is not a valid subject.")


def too_large() -> Refused:
    return Refused(42209, "Schema is too large")


def invalid_rule_set(reason: str) -> Refused:
    return Refused(42210, f"Invalid ruleset: {reason}")


def store_failed(reason: str) -> Refused:
    return Refused(50001, f"Error in the backend data store: {reason}")
