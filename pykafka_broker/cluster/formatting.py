"""What `pykafka-broker format` and `info` do with data directories, as `kafka-storage` does it.

Rule: everything is checked before anything is written. `meta.properties` is what makes a directory a formatted one, so
it comes last. Keys of users are not among the words about what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pykafka_broker.cluster.features import METADATA_VERSION, METADATA_VERSIONS
from pykafka_broker.cluster.format_request import (
    FormatError,
    FormatRequest,
    InitialVoter,
    bootstrap_levels,
    check_kraft_version,
)
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.scram_argument import scram_user
from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, Voters, snapshot_name, snapshot_pieces, write_snapshot
from pykafka_broker.cluster.voters import voter, voters_record
from pykafka_broker.log.checkpoints import META_PROPERTIES, id_text, is_reserved, read_properties, write_properties
from pykafka_broker.log.filesystem import FileSystem, write_file
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord

_SCRAM_FROM = 11
Records = list[ApiMessageAndVersion]


class Node(NamedTuple):
    """What a configuration says of the node whose directories these are."""

    id: int
    directories: Sequence[str]
    metadata_directory: str
    is_controller: bool
    has_static_voters: bool  # controller.quorum.voters
    controller_listener: tuple[str, str, int] | None  # name, host and port that other controllers dial


class Formatter:
    """One run of the command. `new_uuid` and `new_salt` draw what must not be guessed, `now` is the wall clock."""

    def __init__(
        self,
        fs: FileSystem,
        node: Node,
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
        """Does it, and says what it does. Raises FormatError, and OSError of the disk."""
        self._check_quorum()
        levels = bootstrap_levels(self._request)
        check_kraft_version(self._request, self._dynamic)
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
        yield f"Bootstrap metadata: {_text_of(records, levels[METADATA_VERSION])}"
        for path in empty:
            yield f"Formatting {self._kind(path)} {path} with metadata.version {_name(levels)}."
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
            raise FormatError("--standalone needs a listener of controller.listener.names in listeners.")

    def _records(self, levels: dict[str, int]) -> Records:
        if self._request.scram and levels[METADATA_VERSION] < _SCRAM_FROM:
            raise FormatError(f"SCRAM is only supported in metadata.version {METADATA_VERSIONS[_SCRAM_FROM]} or later.")
        records = [ApiMessageAndVersion(FeatureLevelRecord(name, level), 0) for name, level in levels.items()]
        return records + [ApiMessageAndVersion(scram_user(text, self._new_salt), 0) for text in self._request.scram]

    def _directories(self) -> tuple[list[str], list[str], list[str]]:
        """Those to be formatted, those that are, and those that can't be read."""
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
            raise FormatError(f"Invalid cluster.id in: {file}. Expected {wanted}, but read {found['cluster.id']}")
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
        fs, voters = self._fs, self._voters(self._new_directory_id())
        directory_id = self._new_directory_id()
        fs.make_directory(path)
        if path == self._node.metadata_directory and voters:
            directory_id = next((each.directory_id for each in voters if each.id == self._node.id), directory_id)
            folder = f"{path}/{METADATA_TOPIC}-0"
            fs.make_directory(folder)
            control = Voters(1, self._voters_record(voters))
            pieces = snapshot_pieces([], now=self._now, last_contained_log_timestamp=self._now, voters=control)
            write_file(fs, f"{folder}/{snapshot_name(0, 0)}", b"".join(pieces))
        write_snapshot(fs, f"{path}/{BOOTSTRAP_FILE}", records, now=self._now)
        properties = {
            "cluster.id": self._request.cluster_id,
            "directory.id": id_text(directory_id),
            "node.id": str(self._node.id),
            "version": "1",
        }
        write_properties(fs, f"{path}/{META_PROPERTIES}", properties)

    def _new_directory_id(self) -> bytes:
        while is_reserved(drawn := self._new_uuid()):
            pass
        return drawn

    def _voters_record(self, voters: Sequence[InitialVoter]) -> bytes:
        listener = "CONTROLLER" if self._node.controller_listener is None else self._node.controller_listener[0]
        return voters_record(
            [voter(each.id, each.directory_id, [Address(each.host, each.port, listener)]) for each in voters]
        )


def properties_of(fs: FileSystem, path: str) -> dict[str, str] | None:
    """What `meta.properties` of a directory says; None where it is not formatted or not there."""
    if not fs.exists(path):
        return None
    fs.list_directory(path)  # what is no directory is an OSError
    try:
        return read_properties(fs, f"{path}/{META_PROPERTIES}")
    except FileNotFoundError:
        return None


def info(fs: FileSystem, node: Node) -> tuple[list[str], bool]:
    """The lines of `info`, and whether all is well."""
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


def _name(levels: dict[str, int]) -> str:
    return METADATA_VERSIONS[levels[METADATA_VERSION]]


def _text_of(records: Records, level: int) -> str:
    """In the words of kafka-storage, but for keys of users, which it prints."""
    told = ", ".join(f"ApiMessageAndVersion({_text_of_record(each.message)} at version 0)" for each in records)
    return f"BootstrapMetadata(records=[{told}], metadataVersionLevel={level}, source=format command)"


def _text_of_record(record: object) -> str:
    if isinstance(record, FeatureLevelRecord):
        return f"FeatureLevelRecord(name='{record.name}', featureLevel={record.feature_level})"
    shown = {name: getattr(record, name) for name in ("name", "mechanism", "iterations")}
    return (
        f"UserScramCredentialRecord(name='{shown['name']}', mechanism={shown['mechanism']}, salt=[hidden], "
        f"storedKey=[hidden], serverKey=[hidden], iterations={shown['iterations']})"
    )
