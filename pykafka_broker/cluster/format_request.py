"""What somebody wants of `pykafka-broker format`, as `kafka-storage format` takes it.

Rule: what can't be understood or had is `FormatError` with kafka-storage's sentence.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import NamedTuple

from pykafka_broker.cluster.features import (
    DEPENDENCIES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    SUPPORTED,
    default_levels,
)
from pykafka_broker.cluster.features import bootstrap_levels as levels_of_release
from pykafka_broker.log.checkpoints import id_bytes

_LATEST = SUPPORTED[METADATA_VERSION][1]
_UNSTABLE = {_LATEST + 1: "4.4-IV0"}  # known by name, and not to be had
_KNOWN = METADATA_VERSIONS | _UNSTABLE
_NUMBER = re.compile(r"[+-]?[0-9]+")
_MAX_PORT = 65535


class FormatError(Exception):
    """Nothing is formatted, for that reason."""


class InitialVoter(NamedTuple):
    """One controller of a quorum that changes while it runs (KIP-853)."""

    id: int
    host: str
    port: int
    directory_id: bytes


class FormatRequest(NamedTuple):
    """The options of the command. `voters` are those of --initial-controllers."""

    cluster_id: str
    scram: Sequence[str] = ()
    ignore_formatted: bool = False
    release_version: int | None = None
    features: dict[str, int] = {}
    standalone: bool = False
    no_initial_controllers: bool = False
    voters: Sequence[InitialVoter] | None = None

    def __repr__(self) -> str:  # its users have passwords
        return f"<FormatRequest of {self.cluster_id}>"


def metadata_version(text: str, unstable: bool = False) -> int:
    """The level that `--release-version` names: "4.0-IV1", or "4.0" and "4.0.2" for the last one of that release."""
    known = {level: name for level, name in _KNOWN.items() if unstable or level <= _LATEST}
    release = ".".join(text.split(".")[:2])
    for level, name in sorted(known.items(), reverse=True):
        if text == name or (release == name.partition("-")[0] and "-" not in text):
            return level
    raise FormatError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(known.values())}")


def name_of_metadata_version(level: int) -> str | None:
    """As releases call it, if there is such a level."""
    return _KNOWN.get(level)


def feature_levels(arguments: Sequence[str]) -> dict[str, int]:
    """The arguments of --feature; the last one for a name holds."""
    levels = {}
    for text in arguments:
        name, equals, level = text.partition("=")
        if not equals:
            raise FormatError(f"Can't parse feature=level string {text}: equals sign not found.")
        if not _NUMBER.fullmatch(level):
            raise FormatError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
        levels[name] = int(level)
    return levels


def bootstrap_levels(request: FormatRequest) -> dict[str, int]:
    """The features that a new cluster has from its first record on."""
    wanted = dict(request.features)
    level = wanted.pop(METADATA_VERSION, None)
    if level is not None and request.release_version is not None:
        raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    if level is None:
        level = _LATEST if request.release_version is None else request.release_version
    if level not in _KNOWN:
        lowest, highest = min(_KNOWN), max(_KNOWN)
        raise FormatError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from {lowest} to {highest}."
        )
    if level in _UNSTABLE:
        raise FormatError(f"metadata.version {_UNSTABLE[level]} is not yet stable.")
    supported = sorted(SUPPORTED.keys() - {METADATA_VERSION})
    for name in wanted:
        if name not in supported:
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(supported)}")
    levels = levels_of_release(level) | {name: wanted[name] for name in sorted(wanted) if name != KRAFT_VERSION}
    for name, each in levels.items():
        _check_level(name, each, levels)
    changed = {name: each for name, each in levels.items() if each and name != METADATA_VERSION}
    return {METADATA_VERSION: level} | dict(sorted(changed.items()))


def _check_level(name: str, level: int, levels: dict[str, int]) -> None:
    lowest, highest = SUPPORTED[name]
    if not lowest <= level <= highest:
        raise FormatError(f"No feature:{name} with feature level {level}")
    for other, least in DEPENDENCIES.get(name, {}).get(level, {}).items():
        if levels[other] < least:
            raise FormatError(f"{name} could not be set to {level} because it depends on {other} level {least}")


def check_kraft_version(request: FormatRequest, dynamic: bool) -> None:
    """`dynamic`: the voters of the quorum stand in its records."""
    level = request.features.get(KRAFT_VERSION)
    if level is None:
        return
    flags = "--standalone, --initial-controllers, or --no-initial-controllers"
    if level > 0 and not dynamic:
        raise FormatError(
            f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags "
            f"{flags} is used. For dynamic controllers support, try using one of {flags} and removing "
            "controller.quorum.voters."
        )
    if level == 0 and dynamic:
        raise FormatError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags {flags} is used. "
            "For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    _check_level(KRAFT_VERSION, level, {})


def initial_voters(text: str) -> list[InitialVoter]:
    """The argument of --initial-controllers: `ID@HOST:PORT:DIRECTORY`, separated by commas."""
    voters = [_initial_voter(part.strip()) for part in text.split(",") if part.strip()]
    if not voters:
        raise FormatError("No voters given.")
    for each in voters:
        if [other.id for other in voters].count(each.id) > 1:
            raise FormatError(f"Node id {each.id} was specified more than once.")
    return voters


def _initial_voter(text: str) -> InitialVoter:
    node, at, rest = text.partition("@")
    if not at:
        raise FormatError("No @ found in dynamic voter string.")
    if not _NUMBER.fullmatch(node):
        raise FormatError("Failed to parse node id in dynamic voter string.")
    if int(node) < 0:
        raise FormatError(f"Invalid negative node id {int(node)} in dynamic voter string.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise FormatError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise FormatError("No colon following hostname could be found.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise FormatError("No colon following hostname could be found.")
    port, colon, directory = rest.partition(":")
    if not colon:
        raise FormatError("No colon following port could be found.")
    if not _NUMBER.fullmatch(port):
        raise FormatError("Failed to parse port in dynamic voter string.")
    if not 0 <= int(port) <= _MAX_PORT:
        raise FormatError(f"Invalid port {int(port)} in dynamic voter string.")
    try:
        directory_id = id_bytes(directory)
    except (binascii.Error, ValueError):
        raise FormatError("Failed to parse directory ID in dynamic voter string.") from None
    return InitialVoter(int(node), host, int(port), directory_id)


def version_mapping(text: str | None) -> list[str]:
    """The features of a release, the latest one for None, as Kafka's tools print them. Raises FormatError."""
    level = _LATEST if text is None else metadata_version(text, unstable=True)
    first = f"{METADATA_VERSION}={level} ({text or name_of_metadata_version(level)})"
    return [first, *(f"{name}={each}" for name, each in default_levels(level).items())]


def feature_dependencies(name: str, level: int) -> list[str]:
    """What that level of a feature needs, as Kafka's tools print it. Raises FormatError."""
    if name == METADATA_VERSION and name_of_metadata_version(level) is None:
        raise FormatError(f"Unknown {name} {level}")
    if name not in SUPPORTED:
        raise FormatError(f"Unknown feature: {name}")
    if name != METADATA_VERSION and not SUPPORTED[name][0] <= level <= SUPPORTED[name][1]:
        raise FormatError(f"Feature level {level} is not supported for feature {name}")
    needed = DEPENDENCIES.get(name, {}).get(level, {})
    first = f"{_feature(name, level)} requires:" if needed else f"{_feature(name, level)} has no dependencies."
    return [first, *(f"    {_feature(other, least)}" for other, least in needed.items())]


def _feature(name: str, level: int) -> str:
    return f"{name}={level}" + (f" ({name_of_metadata_version(level)})" if name == METADATA_VERSION else "")
