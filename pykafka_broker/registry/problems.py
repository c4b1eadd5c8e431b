"""Errors of the registry, in the numbers and words of Confluent's REST API."""

from __future__ import annotations


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


def no_subject(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(named: int | str | None = None) -> RegistryError:
    """Return the error for an unknown id or GUID, or for an unknown form of schema."""
    return RegistryError(40403, "Schema not found" if named is None else f"Schema {named} not found")


def subject_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )


def version_not_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_config(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RegistryError:
    return RegistryError(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(details)}]",
    )


def invalid_schema(message: str) -> RegistryError:
    return RegistryError(42201, message)


def invalid_version(text: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level() -> RegistryError:
    return RegistryError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryError:
    return RegistryError(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT.")


def not_permitted(message: str) -> RegistryError:
    return RegistryError(42205, message)


def referred_to(subject: str, version: int) -> RegistryError:
    return RegistryError(
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject.")


def too_large() -> RegistryError:
    return RegistryError(42209, "Schema is too large")


def invalid_rule_set(reason: str) -> RegistryError:
    return RegistryError(42210, f"Invalid ruleset: {reason}")


def store_failed(reason: str) -> RegistryError:
    return RegistryError(50001, f"Error in the backend data store: {reason}")
