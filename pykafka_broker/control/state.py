"""The whole state of the broker: emptied, copied, and replaced.

Rule: state is never changed in place. The files in the data directories are put aside, and the new content is laid in
their place. Another broker is started on the new content and takes over all connections within one turn of the event
loop. Requests received before are answered by the old broker or dropped: clients see what they would see if topics and
coordinators had moved. If the new broker can't be started, the old data are put back and a broker is started on them;
if that start fails too, the answer says so.

Only the broker of the process may use the directories. Once another broker has taken over, the jobs of the old one
touch no directory, and their results are dropped. Topics that outlive a reset are new topics without records, with the
same names, partitions and settings. A cluster keeps its metadata log, so its settings are undone by further records.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.setup import Setup
from pykafka_broker.cluster.bootstrap import bootstrap_records, first_records
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.cluster.records import ApiMessageAndVersion, RecordType
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS
from pykafka_broker.control.problems import Problem
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import DisposableFiles, OsFileSystem
from pykafka_broker.log.flush import FlushJob
from pykafka_broker.log.image import FORMATTED, SNAPSHOTS, aside_in, lay_image, put_back, set_aside, take_image
from pykafka_broker.log.jobs import Errand, Job, Submit
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.uncreated_logs import CreateFoldersJob
from pykafka_broker.platform import file_path
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from pykafka_broker.protocol.stored.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from pykafka_broker.server.serving import BrokerShare, Running, start_broker


class DataDirLease:
    """A broker's right to use the data directories, from the broker's start to `end`.

    submit: takes the broker's jobs.
    syncs: False for data that end with the process.
    """

    def __init__(self, submit: Submit, *, syncs: bool = True) -> None:
        self.files = DisposableFiles()
        self.files.hasty = not syncs
        self.syncs = syncs
        self.over = False
        self._submit = submit

    @property
    def share(self) -> BrokerShare:
        """Return the broker's access to the files, and to the threads for the broker's jobs."""
        return BrokerShare(self.files, self._take)

    def _take(self, job: Job) -> None:
        """Hand on a job. Data that end with the process are not synced, so their syncs need no thread; and no folder is
        made in advance that a reset would have to move away.
        """
        if not self.syncs and isinstance(job, CreateFoldersJob):
            job.decline()
        elif self.syncs or not isinstance(job, FlushJob):
            self._submit(self._while_it_lasts(job))
        elif not self.over:
            job.apply()

    def _while_it_lasts(self, job: Job) -> Errand:
        """Return a job that does nothing once the lease has ended."""

        def unless_over(step: Callable[..., object]) -> Callable[..., object]:
            return lambda *error: None if self.over else step(*error)

        return Errand(unless_over(job.run), unless_over(job.failed), unless_over(job.apply))

    def next(self) -> DataDirLease:
        return DataDirLease(self._submit, syncs=self.syncs)

    def end(self) -> None:
        self.over = True
        self.files.revoke()


# The kinds of records that can be kept at a reset, with the names by which to keep them.
KEPT = {
    RecordType.CONFIG: "configs",
    RecordType.CLIENT_QUOTA: "quotas",
    RecordType.ACCESS_CONTROL_ENTRY: "acls",
    RecordType.USER_SCRAM_CREDENTIAL: "users",
    RecordType.TOPIC: "topics",
    RecordType.PARTITION: "topics",
}

SETTINGS = frozenset({*KEPT.values()} - {"topics"})


def kept_records(node: ServerNode, keep: Collection[str]) -> list[ApiMessageAndVersion]:
    """Return the records that give an empty cluster back everything in `keep`."""
    if not {*KEPT.values()} & {*keep}:
        return []
    image, controller = node.image, node.led_metadata.controller
    new_ids = {topic.id: node.new_uuid() for topic in image.topics.values() if topic.name not in INTERNAL_TOPICS}
    records = []
    for record in image_records(image, controller.partition_record_version(), controller.broker_record_version()):
        message = record.message
        name = _kept_as(message)
        if name == "topics" and isinstance(message, ConfigRecord):
            name = None if message.resource_name in INTERNAL_TOPICS else name
        elif name == "topics":
            name = name if message.topic_id in new_ids else None
            message.topic_id = new_ids.get(message.topic_id, message.topic_id)
        if name in keep:
            records.append(record)
    return records


def _kept_as(message: Any) -> str | None:
    """Return the name by which a record can be kept; configs of topics go with their topics."""
    of_topic = isinstance(message, ConfigRecord) and message.resource_type == ConfigResourceType.TOPIC
    return "topics" if of_topic else KEPT.get(RecordType(message.API_KEY))


def settings_taken_back(node: ServerNode, keep: Collection[str]) -> list[ApiMessageAndVersion]:
    """Return records to restore the settings of a cluster's first start, except for `keep`.

    The settings of topics are not among them: they go with their topics.
    """
    image, controller = node.image, node.led_metadata.controller
    directory = node.logs.directory_of_metadata_log().path
    begun = first_records(controller, bootstrap_records(node.logs.fs, directory, node.clock.wall, controller.config))
    there = image_records(image, controller.partition_record_version(), controller.broker_record_version())
    first, now = _settings(begun, keep), _settings(there, keep)
    removed = [_removal(message) for message in now if message not in first]
    return [ApiMessageAndVersion(message, 0) for message in (*removed, *(each for each in first if each not in now))]


def _settings(records: Iterable[ApiMessageAndVersion], keep: Collection[str]) -> list[Any]:
    """Return the settings among records, without the kept kinds."""
    return [each.message for each in records if (name := _kept_as(each.message)) in SETTINGS and name not in keep]


def _removal(message: Any) -> Message:
    """Return the record for the removal of a setting."""
    if isinstance(message, ConfigRecord):
        return ConfigRecord(message.resource_type, message.resource_name, message.name, None)
    if isinstance(message, ClientQuotaRecord):
        return ClientQuotaRecord(message.entity, message.key, 0.0, True)
    if KEPT[RecordType(message.API_KEY)] == "acls":
        return RemoveAccessControlEntryRecord(message.id)
    return RemoveUserScramCredentialRecord(message.name, message.mechanism)


_ROOM, _ROOM_BYTES = ".room.tmp", 256 << 10  # more than a broker writes while it starts
_UNFINISHED = "."  # names of unfinished or removed images begin so
_EXPECTED = (OSError, LogDirectoryError, ApiError)  # causes of a start that fails


class BrokerState:
    """The state of the broker of a process.

    clearing: functions that clear further things at a reset, by the name to keep the thing by.
    always: functions that clear things that can't be kept.
    restored: functions to call when a snapshot has taken the place of the data.
    """

    def __init__(self, running: Running, lease: DataDirLease) -> None:
        self.clearing: dict[str, Callable[[], object]] = {}
        self.always: list[Callable[[], object]] = []
        self.restored: list[Callable[[], object]] = []
        self._running = running
        self._lease = lease

    @property
    def _broker(self) -> Broker:
        return self._running.server.broker

    @property
    def _directories(self) -> list[str]:
        return [directory.path for directory in self._broker.node.logs.directories]

    # -- empty

    def reset(self, keep: Collection[str]) -> None:
        """Go back to the state before the first client, except for `keep`."""
        self._require_alone()
        if "faults" not in keep:
            self.fail_writes(0)  # a full disk is a fault too, and no broker starts on one
        self._require_room()
        self._running.server.serve_received()
        old = self._broker
        records = kept_records(old.node, keep)
        setup = old.successor
        self._exchange(lambda directory: None, setup, FORMATTED, records)
        for clear in (*self.always, *(clear for name, clear in self.clearing.items() if name not in keep)):
            clear()

    def fail_writes(self, number: int) -> None:
        """Let writes to the broker's disks fail with this error; 0: no longer."""
        self._lease.files.fail_writes(number)

    # -- images

    def image_for_fork(self) -> list[str]:
        """Return the paths of a copy of the data directories, which belongs to the caller."""
        name = f"{_UNFINISHED}fork-{self._new_uuid().hex()}"
        self.snapshot(name)
        return [_image(directory, name) for directory in self._directories]

    def snapshot(self, name: str) -> None:
        """Keep the present state under a name, replacing an earlier snapshot."""
        self._require_alone()
        logs = self._broker.node.logs
        offline = [each.path for each in logs.directories if not each.online]
        if offline:
            raise Problem(409, f"{offline[0]} is offline: what is in it can't be copied")
        unfinished = f"{_UNFINISHED}{self._new_uuid().hex()}"
        try:
            for directory in logs.directories:
                take_image(logs, directory, _image(directory.path, unfinished))
        except (OSError, ApiError) as error:
            self._remove(unfinished)
            raise Problem(503, f"the data can't be copied: {error}") from error
        self._forget(name)
        for directory in logs.directories:
            os.rename(_image(directory.path, unfinished), _image(directory.path, name))

    def restore(self, name: str) -> None:
        """Return to the state of a snapshot."""
        self._require_alone()
        self._require(name)
        self._require_room()
        self._running.server.serve_received()
        self._exchange(lambda directory: lay_image(_image(directory, name), directory), self._broker.successor)
        for step in self.restored:
            step()

    def names(self) -> list[str]:
        folder = file_path(f"{self._directories[0]}/{SNAPSHOTS}")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(name for name in names if not name.startswith(_UNFINISHED))

    def delete(self, name: str) -> None:
        """Forget a snapshot."""
        self._require(name)
        self._forget(name)

    def size_of(self, name: str) -> int:
        """Return the bytes of records in a snapshot."""
        size = 0
        for directory in self._directories:
            for path, _, names in os.walk(_image(directory, name)):
                size += sum(os.path.getsize(os.path.join(path, each)) for each in names if each.endswith(".log"))
        return size

    def _require_alone(self) -> None:
        if not self._broker.node.roles.alone:
            raise Problem(
                409, "the node belongs to a cluster: only a broker alone has a state to reset, keep, restore or fork"
            )

    def _require_room(self) -> None:
        """Refuse on a full disk: neither the new broker nor, after a failure, the old broker could start."""
        for directory in self._directories:
            path = f"{directory}/{_ROOM}"
            try:
                if self._lease.files.refuses_writes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                OsFileSystem().open(path, create=True).write_at(bytes(_ROOM_BYTES), 0)
            except OSError as error:
                raise Problem(
                    503, f"nothing is changed, since there is no room: {directory}: {error.strerror}"
                ) from error
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(file_path(path))

    def _require(self, name: str) -> None:
        names = self.names()
        if name not in names:
            known = f"there are {', '.join(names)}" if names else "there are none"
            raise Problem(404, f"there is no snapshot {name}; {known}")

    def _forget(self, name: str) -> None:
        """Rename an image away at once; the files are removed beside the loop."""
        gone = f"{_UNFINISHED}{self._new_uuid().hex()}"
        for directory in self._directories:
            if os.path.isdir(_image(directory, name)):
                os.rename(_image(directory, name), _image(directory, gone))
        self._remove(gone)

    def _remove(self, name: str) -> None:
        self._remove_folders([_image(directory, name) for directory in self._directories])

    def _remove_folders(self, folders: Iterable[str], logs: list[PartitionLog] | None = None) -> None:
        """Close the last files of `logs` and remove folders, beside the loop; the next start removes leftovers."""

        def run() -> None:
            if logs is not None:
                logs.clear()
            for folder in folders:
                shutil.rmtree(file_path(folder), ignore_errors=True)

        self._running.jobs.submit(Errand(run, failed=lambda error: None))

    def _new_uuid(self) -> bytes:
        return self._broker.node.new_uuid()

    # -- another broker in the place of this one

    def _exchange(
        self,
        lay: Callable[[str], None],
        setup: Setup,
        stays: Collection[str] = (),
        records: list[ApiMessageAndVersion] | None = None,
    ) -> None:
        """Start another broker on what `lay` lays, and commit `records` before it serves anybody."""
        old, aside = self._broker, {each: aside_in(each, self._new_uuid()) for each in self._directories}
        logs = [*old.node.logs.loaded.values()]
        old.hand_over()
        self._lease.end()
        try:
            with _uncollected():
                for directory in aside:
                    set_aside(directory, aside[directory], stays)
                    lay(directory)
                self._start(setup)
            if records:
                self._broker.node.led_metadata.commit(records)
        except BaseException as error:
            self._return_to_old_data(aside, setup, stays, error)
            if isinstance(error, _EXPECTED):
                raise Problem(503, f"all is as before, since the data can't be exchanged: {error}") from error
            raise
        finally:
            old.fail_requests()
        self._remove_folders(aside.values(), logs)

    def _return_to_old_data(
        self, aside: dict[str, str], setup: Setup, stays: Collection[str], error: BaseException
    ) -> None:
        """Put the old data back and start a broker on them. Raises `Problem` 500 after a second failure."""
        try:
            self._put_back(aside, stays)
            self._start(setup)
        except _EXPECTED as second:
            told = f"the data can't be exchanged: {error}; nor does the broker start on its old data: {second}"
            raise Problem(500, f"{told}. Restore another snapshot, or restart the process") from second

    def _put_back(self, aside: dict[str, str], stays: Collection[str]) -> None:
        for directory, before in aside.items():
            if os.path.isdir(file_path(before)):
                failed = aside_in(directory, self._new_uuid())
                set_aside(directory, failed, stays)
                put_back(before, directory)
                self._remove_folders([failed])

    def _start(self, setup: Setup) -> None:
        running, lease = self._running, self._lease.next()
        broker = running.new_broker(setup, lease.share)
        lease.files.hasty = True
        try:
            start_broker(broker, running.listeners)
        except BaseException:
            lease.end()
            broker.hand_over()
            raise
        lease.files.hasty = not lease.syncs
        self._lease = lease
        running.server.replace(broker)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Make objects without looks for garbage in between: all of them live as long as the new broker."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _image(directory: str, name: str) -> str:
    return file_path(f"{directory}/{SNAPSHOTS}/{name}")
