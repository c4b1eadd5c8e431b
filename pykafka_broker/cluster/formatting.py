"""`pykafka-broker format` and `info`, like `kafka-storage`: arguments, SCRAM users, voters, directories.

Rule: everything is checked before anything is written; a refusal is `FormatError` with kafka-storage's sentence, and
with advice in parentheses on a line of its own where the sentence leaves a user alone.
A directory counts as formatted when it has `meta.properties`, so this file is written last. The output never shows a
user's keys, and no error shows a password. As in kafka-storage a value of `--add-scram` can't contain a comma, and
quotes around a value are removed.

The metadata log names a voter of the quorum by node id and directory id (KIP-853), with the addresses of its listeners
for controllers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from pykafka_broker.cluster.bootstrap import format_records
from pykafka_broker.cluster.features import (
    DEPENDENCIES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    SUPPORTED,
    default_levels,
    supported_features,
)
from pykafka_broker.cluster.features import bootstrap_levels as levels_of_release
from pykafka_broker.cluster.records import ApiMessageAndVersion, Records
from pykafka_broker.cluster.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    credential,
    salted_password,
)
from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, Voters, snapshot_name, snapshot_pieces, write_snapshot
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import java_integer
from pykafka_broker.log.checkpoints import (
    META_PROPERTIES,
    is_reserved,
    read_properties,
    write_properties,
)
from pykafka_broker.log.filesystem import FileSystem, write_file
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.peers import Address
from pykafka_broker.protocol.runtime import parse_uuid_text, uuid_text
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.protocol.stored.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord

_MAX_PORT = 65535
_SCRAM_KEYS = ("name", "password", "salt", "saltedpassword", "iterations")
_SCRAM_FROM = 11
# An unknown level, in the words of kafka-storage and of kafka-features.
_UNSUPPORTED_LEVEL = "Feature level {level} is not supported for feature {name}"
NO_LEVEL = "No feature:{name} with feature level {level}"


class FormatError(Exception):
    """Formatting is refused, for the given reason."""


class InitialVoter(NamedTuple):
    """A controller of a quorum which changes while running (KIP-853)."""

    id: int
    host: str
    port: int
    directory_id: bytes


class FormatRequest(NamedTuple):
    """The options of the command; `voters` is the argument of --initial-controllers."""

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


class KnownLevels:
    """The levels of features known to a release and its tools. supported: lowest and highest level by feature."""

    def __init__(self, supported: Mapping[str, tuple[int, int]] = SUPPORTED) -> None:
        self.supported = supported
        self.latest = supported[METADATA_VERSION][1]
        # a release knows the name of the first level of the next one, and does not support the level
        self._names = {level: name for level, name in METADATA_VERSIONS.items() if level <= self.latest + 1}

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Return the levels of the emulated release; the newest levels for releases without metadata.version."""
        supported = supported_features(config)
        return cls(supported if METADATA_VERSION in supported else SUPPORTED)

    def metadata_version(self, text: str, unstable: bool = False) -> int:
        """Return the level of a `--release-version`: "4.0-IV1"; "4.0" and "4.0.2" name the last level of 4.0."""
        known = {level: name for level, name in self._names.items() if unstable or level <= self.latest}
        release = ".".join(text.split(".")[:2])
        for level, name in sorted(known.items(), reverse=True):
            is_last = release == name.partition("-")[0] and "-" not in text and level <= self.latest
            if text == name or is_last:
                return level
        named = ", ".join(known.values())
        raise FormatError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {named}")

    def name_of_metadata_version(self, level: int) -> str | None:
        """Return the releases' name of a level, or None for an unknown level."""
        return self._names.get(level)

    def bootstrap(self, request: FormatRequest) -> dict[str, int]:
        """Return the features of a new cluster from the first record on."""
        wanted = dict(request.features)
        level = wanted.pop(METADATA_VERSION, None)
        if level is not None and request.release_version is not None:
            raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
        if level is None:
            level = self.latest if request.release_version is None else request.release_version
        if level not in self._names:
            lowest, highest = min(self._names), max(self._names)
            raise FormatError(
                f"No MetadataVersion with feature level {level}. Valid feature levels are from {lowest} to {highest}."
            )
        if level > self.latest:
            raise FormatError(f"metadata.version {self._names[level]} is not yet stable.")
        supported = sorted(self.supported.keys() - {METADATA_VERSION})
        for name in wanted:
            if name not in supported:
                raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(supported)}")
        levels = levels_of_release(level) | {name: wanted[name] for name in sorted(wanted) if name != KRAFT_VERSION}
        for name, each in levels.items():
            self._check(name, each, levels)
        changed = {name: each for name, each in levels.items() if each and name != METADATA_VERSION}
        return {METADATA_VERSION: level} | dict(sorted(changed.items()))

    def check_kraft_version(self, request: FormatRequest, dynamic: bool) -> None:
        """Check the wanted kraft.version; `dynamic`: the voters of the quorum stand in records."""
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
                f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags {flags} is "
                "used. For dynamic controllers support, try removing the --feature flag for kraft.version."
            )
        self._check(KRAFT_VERSION, level, {})

    def _check(self, name: str, level: int, levels: dict[str, int]) -> None:
        lowest, highest = self.supported[name]
        if not lowest <= level <= highest:
            raise FormatError(NO_LEVEL.format(name=name, level=level))
        for other, least in DEPENDENCIES.get(name, {}).get(level, {}).items():
            if levels[other] < least:
                raise FormatError(f"{name} could not be set to {level} because it depends on {other} level {least}")

    def version_mapping(self, text: str | None) -> list[str]:
        """Return the features of a release, the latest for None, in the words of Kafka's tools. Raises FormatError.

        For a future release, levels that are unknown here are left out.
        """
        level = self.latest if text is None else self.metadata_version(text, unstable=True)
        first = f"{METADATA_VERSION}={level} ({text or self.name_of_metadata_version(level)})"
        known = {name: min(each, self.supported[name][1]) for name, each in default_levels(level).items()}
        return [first, *(f"{name}={each}" for name, each in known.items())]

    def feature_dependencies(self, name: str, level: int, unknown: str = _UNSUPPORTED_LEVEL) -> list[str]:
        """Return the dependencies of a feature's level, in the words of Kafka's tools.

        Raises FormatError; `unknown` are the words for an unknown level, in which the tools differ.
        """
        if name == METADATA_VERSION and self.name_of_metadata_version(level) is None:
            raise FormatError(f"Unknown {name} {level}")
        if name not in self.supported:
            raise FormatError(f"Unknown feature: {name}")
        lowest, highest = self.supported[name]
        if name != METADATA_VERSION and not lowest <= level <= highest:
            raise FormatError(unknown.format(name=name, level=level))
        needed = DEPENDENCIES.get(name, {}).get(level, {})
        first = f"{self._level_text(name, level)} {'requires:' if needed else 'has no dependencies.'}"
        return [first, *(f"    {self._level_text(other, least)}" for other, least in needed.items())]

    def _level_text(self, name: str, level: int) -> str:
        return f"{name}={level}" + (f" ({self.name_of_metadata_version(level)})" if name == METADATA_VERSION else "")


def feature_level(text: str) -> tuple[str, int]:
    """Return name and level in an argument of --feature: `NAME=LEVEL`. Raises FormatError."""
    name, equals, level = map(str.strip, text.partition("="))
    if not equals:
        raise FormatError(f"Can't parse feature=level string {text}: equals sign not found.")
    return name, _number(
        level, f"Can't parse feature=level string {text}: unable to parse {level} as a short.", bits=15
    )


def _number(text: str, refusal: str, bits: int = 31) -> int:
    """Return a number as Java reads it. Raises FormatError, with the refusal."""
    try:
        return java_integer(text, bits)
    except ValueError:
        raise FormatError(refusal) from None


def initial_voters(text: str) -> list[InitialVoter]:
    """Return the voters in the argument of --initial-controllers: `ID@HOST:PORT:DIRECTORY`, separated by commas."""
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
    if not node:
        raise FormatError("Invalid @ at beginning of dynamic voter string.")
    if not rest:
        raise FormatError("No hostname found after node id.")
    node_id = _number(node, "Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise FormatError(f"Invalid negative node id {node_id} in dynamic voter string.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise FormatError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise FormatError("Port section must start with a colon.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise FormatError("No colon following hostname could be found.")
    number, colon, directory = rest.partition(":")
    if not colon:
        raise FormatError("No colon following port could be found.")
    port = _number(number, "Failed to parse port in dynamic voter string.")
    if not 0 <= port <= _MAX_PORT:
        raise FormatError(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = parse_uuid_text(directory)
    except ValueError:
        raise FormatError("Failed to parse directory ID in dynamic voter string.") from None
    return InitialVoter(node_id, host, port, directory_id)


# -- users


def scram_user(argument: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Return the record of a user. Raises FormatError: the argument is wrong."""
    mechanism, equals, rest = argument.strip().partition("=")
    if not equals:
        raise FormatError(f"Failed to find equals sign in SCRAM argument '{argument.strip()}'")
    if mechanism not in SCRAM_MECHANISMS:
        raise FormatError(f"The add-scram mechanism {mechanism} is not supported.")
    values = _values(rest)
    if "name" not in values:
        raise FormatError("You must supply 'name' to add-scram")
    salt = _decoded(values["salt"], "salt") if "salt" in values else new_salt()
    text = values.get("iterations", str(MIN_ITERATIONS))
    iterations = _number(text, f"Failed to parse iterations count: {text}")
    if not {"password", "saltedpassword"} & values.keys():
        raise FormatError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "password" not in values and "salt" not in values:
        raise FormatError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted = b"" if "password" in values else _decoded(values["saltedpassword"], "saltedPassword")
    _check_iterations(mechanism, iterations)
    unknown = sorted(values.keys() - {*_SCRAM_KEYS})
    if unknown:
        raise FormatError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    kind = SCRAM_MECHANISMS[mechanism]
    if values.get("password"):
        salted = salted_password(kind, values["password"], salt, iterations)
    if not salted:
        raise FormatError("The password must not be empty")  # kafka-storage says "Empty key"
    return credential(values["name"], kind, salt, salted, iterations)


def _values(text: str) -> dict[str, str]:
    if not text.startswith("["):
        raise FormatError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise FormatError("Expected configuration string to end with ]")
    parts = text[1:-1].split(",")
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    values = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise FormatError(f"No equals sign found in SCRAM component: {key}")
        quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
        values[key] = value[1:-1] if quoted else value
    return values


def _check_iterations(mechanism: str, iterations: int) -> None:
    using = mechanism.replace("-", "_")
    if iterations < MIN_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {using}")
    if iterations > MAX_ITERATIONS:
        raise FormatError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {using}")


def _decoded(text: str, what: str) -> bytes:
    """Return the bytes of a text in Base64. As in Java, the padding may be missing as a whole. Raises FormatError."""
    try:
        return base64.b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        hint = f": {text}" if what == "salt" else ""  # the salted password is as good as a password
        raise FormatError(f"Failed to decode given {what}{hint}") from None


# -- voters


def voter(node_id: int, directory_id: bytes, endpoints: Iterable[Address]) -> Voter:
    """Return a voter with the abilities of the release."""
    reached = [Endpoint(each.listener, each.host, each.port) for each in endpoints]
    return Voter(node_id, directory_id, reached, KRaftVersionFeature(*SUPPORTED["kraft.version"]))


def voters_record(voters: Sequence[Voter]) -> bytes:
    return VotersRecord(0, list(voters)).encode(0)


# -- directories


class StorageNode(NamedTuple):
    """A node's identity and data directories, by the configuration."""

    id: int
    directories: Sequence[str]
    metadata_directory: str
    is_controller: bool
    has_static_voters: bool  # controller.quorum.voters
    controller_listener: tuple[str, str, int] | None  # name, host and port that other controllers dial
    levels: KnownLevels = KnownLevels()
    begins_with_a_snapshot: bool = False  # the first records are the first snapshot of the metadata log, as since 4.4


class StorageFormatter:
    """A run of the command. `new_uuid` and `new_salt` draw unguessable bytes, `now` is the wall clock."""

    def __init__(
        self,
        fs: FileSystem,
        node: StorageNode,
        request: FormatRequest,
        *,
        now: int,
        new_uuid: Callable[[], bytes],
        new_salt: Callable[[], bytes],
    ) -> None:
        self._fs = fs
        self._node = node
        self._request = request
        self._now = now
        self._new_uuid = new_uuid
        self._new_salt = new_salt

    def run(self) -> Iterator[str]:
        """Format the directories, and yield each step in words.

        Raises:
            FormatError: formatting is refused.
            OSError: the disk refused.
        """
        self._check_quorum()
        levels = self._node.levels.bootstrap(self._request)
        self._node.levels.check_kraft_version(self._request, self._dynamic)
        records = self._records(levels)
        empty, formatted, unreadable = self._directories()
        for path in unreadable:
            yield f"I/O error trying to read log directory {path}. Ignoring..."
        if not empty and not formatted:
            raise FormatError("No available log directories to format.")
        if formatted and not self._request.ignore_formatted:
            raise FormatError(
                f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory "
                "and format the others."
            )
        if not empty:
            yield "All of the log directories are already formatted."
            return
        told = ", ".join(f"ApiMessageAndVersion({_text_of_record(each.message)} at version 0)" for each in records)
        yield (
            f"Bootstrap metadata: BootstrapMetadata(records=[{told}], "
            f"metadataVersionLevel={levels[METADATA_VERSION]}, source=format command)"
        )
        for path in empty:
            version = METADATA_VERSIONS[levels[METADATA_VERSION]]
            yield f"Formatting {self._kind(path)} {path} with metadata.version {version}."
            self._format(path, records)

    @property
    def _dynamic(self) -> bool:
        request = self._request
        return not self._node.has_static_voters and (
            request.standalone or request.no_initial_controllers or request.voters is not None
        )

    def _check_quorum(self) -> None:
        request, node = self._request, self._node
        if request.standalone and not node.is_controller:
            raise FormatError("You can only use --standalone on a controller.")
        if node.has_static_voters and (request.standalone or request.voters is not None):
            raise FormatError(
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
                "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
                "controller.quorum.bootstrap.servers instead."
            )
        if node.is_controller and not node.has_static_voters and not self._dynamic:
            raise FormatError(
                "Because controller.quorum.voters is not set on this controller, you must specify one of the "
                "following: --standalone, --initial-controllers, or --no-initial-controllers."
            )
        if request.standalone and node.controller_listener is None:
            raise FormatError(
                "--standalone needs a listener of controller.listener.names in listeners; a node without one takes "
                "--no-initial-controllers."
            )

    def _records(self, levels: dict[str, int]) -> Records:
        if self._request.scram and levels[METADATA_VERSION] < _SCRAM_FROM:
            raise FormatError(f"SCRAM is only supported in metadata.version {METADATA_VERSIONS[_SCRAM_FROM]} or later.")
        users = (ApiMessageAndVersion(scram_user(text, self._new_salt), 0) for text in self._request.scram)
        return [*format_records(levels), *users]

    def _directories(self) -> tuple[list[str], list[str], list[str]]:
        """Return the directories to format, the formatted directories, and the unreadable directories."""
        empty, formatted, unreadable = [], [], []
        for path in sorted({*self._node.directories, self._node.metadata_directory}):
            try:
                found = properties_of(self._fs, path)
            except (FileNotFoundError, ValueError):
                found = {}
            except OSError:
                unreadable.append(path)
                continue
            if found is None:
                empty.append(path)
                continue
            formatted.append(path)
            self._check_properties(path, found)
        return empty, formatted, unreadable

    def _check_properties(self, path: str, found: dict[str, str]) -> None:
        file, wanted = f"{path}/{META_PROPERTIES}", self._request.cluster_id
        if found.get("cluster.id", wanted) != wanted:
            there = found["cluster.id"]
            raise FormatError(
                f"Invalid cluster.id in: {file}. Expected {wanted}, but read {there}\n"
                f"(-t {there} -g leaves the data as they are; {wanted} needs an empty directory)"
            )
        if found.get("node.id", str(self._node.id)) != str(self._node.id):
            raise FormatError(
                f"Stored node id {found['node.id']} doesn't match previous node id {self._node.id} in {file}. If you "
                "moved your data, make sure your configured node id matches. If you intend to create a new node, you "
                "should remove all data in your data directories."
            )

    def _kind(self, path: str) -> str:
        if path != self._node.metadata_directory:
            return "data directory"
        if not self._dynamic or self._request.no_initial_controllers:
            return "metadata directory"
        mine = any(each.id == self._node.id for each in self._voters(b""))
        return "dynamic metadata voter directory" if mine else "dynamic metadata directory"

    def _voters(self, directory_id: bytes) -> Sequence[InitialVoter]:
        if self._request.voters is not None:
            return self._request.voters
        if not self._request.standalone or self._node.controller_listener is None:
            return ()
        _, host, port = self._node.controller_listener
        return [InitialVoter(self._node.id, host, port, directory_id)]

    def _format(self, path: str, records: Records) -> None:
        fs, node = self._fs, self._node
        directory_id = self._new_directory_id()
        fs.make_directory(path)
        if path == node.metadata_directory:
            voters = self._voters(self._new_directory_id())
            directory_id = next((each.directory_id for each in voters if each.id == node.id), directory_id)
            if node.is_controller if node.begins_with_a_snapshot else voters:
                self._write_first_snapshot(path, voters, records if node.begins_with_a_snapshot else [])
        if not node.begins_with_a_snapshot:
            write_snapshot(fs, f"{path}/{BOOTSTRAP_FILE}", records, now=self._now)
        properties = {
            "cluster.id": self._request.cluster_id,
            "directory.id": uuid_text(directory_id),
            "node.id": str(node.id),
            "version": "1",
        }
        write_properties(fs, f"{path}/{META_PROPERTIES}", properties)

    def _write_first_snapshot(self, path: str, voters: Sequence[InitialVoter], records: Records) -> None:
        """Write the snapshot with which the metadata log begins: the quorum's voters, and records of the metadata."""
        folder = f"{path}/{METADATA_TOPIC}-0"
        self._fs.make_directory(folder)
        listener = "CONTROLLER" if self._node.controller_listener is None else self._node.controller_listener[0]
        told = [voter(each.id, each.directory_id, [Address(each.host, each.port, listener)]) for each in voters]
        control = Voters(int(self._dynamic), voters_record(told) if told else None)
        pieces = snapshot_pieces(records, now=self._now, last_contained_log_timestamp=self._now, voters=control)
        write_file(self._fs, f"{folder}/{snapshot_name(0, 0)}", b"".join(pieces))

    def _new_directory_id(self) -> bytes:
        while is_reserved(drawn := self._new_uuid()):
            pass
        return drawn


def properties_of(fs: FileSystem, path: str) -> dict[str, str] | None:
    """Return the content of a directory's `meta.properties`; None if not formatted or missing."""
    if not fs.exists(path):
        return None
    fs.list_directory(path)  # raises OSError for a file
    try:
        return read_properties(fs, f"{path}/{META_PROPERTIES}")
    except FileNotFoundError:
        return None


def info(fs: FileSystem, node: StorageNode) -> tuple[list[str], bool]:
    """Return the lines of `info`, and whether no problem was found."""
    found, problems = [], []
    first: dict[str, str] = {}
    for path in sorted({*node.directories, node.metadata_directory}):
        try:
            properties = properties_of(fs, path)
        except NotADirectoryError:
            problems.append(f"{path} is not a directory")
            continue
        except (OSError, ValueError) as error:
            problems.append(f"{path}/{META_PROPERTIES} can't be read: {error}")
            continue
        if properties is None and not fs.exists(path):
            problems.append(f"{path} does not exist")
            continue
        found.append(path)
        if properties is None:
            problems.append(f"{path} is not formatted.")
        elif not first:
            first = properties
        else:
            for key, name in (("cluster.id", "cluster"), ("node.id", "node")):
                if properties.get(key) != first.get(key):
                    problems.append(f"Mismatched {name} IDs between storage directories.")
    metadata = ", ".join(f"{key}={value}" for key, value in sorted(first.items()))
    lines = _block("log director{}", ("y", "ies"), found)
    lines += [f"Found metadata: {{{metadata}}}", ""] if first else []
    return lines + _block("problem{}", ("", "s"), problems), not problems


def _block(title: str, endings: tuple[str, str], lines: list[str]) -> list[str]:
    if not lines:
        return []
    return [f"Found {title.format(endings[len(lines) > 1])}:", *(f"  {line}" for line in lines), ""]


def _text_of_record(record: object) -> str:
    """Return a record in the words of kafka-storage, but without a user's keys, which kafka-storage prints."""
    if isinstance(record, FeatureLevelRecord):
        return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
    assert isinstance(record, UserScramCredentialRecord)
    return (
        f"UserScramCredentialRecord(name='{record.name}', mechanism={record.mechanism}, salt=[hidden], "
        f"storedKey=[hidden], serverKey=[hidden], iterations={record.iterations})"
    )
