"""A busy broker on a simulated disk, and what it has promised.

Rule: jobs run and are applied when chance has it, as with threads: between the two everything else goes on. A promise
is known before the operation that makes it, so that it can be checked in the middle.
"""

from __future__ import annotations

from itertools import count
from random import Random

from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.log.flush import Waiter
from pykafka_broker.log.jobs import Job
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.log.retention import retain
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.support import NOW, ClockedLogs, batch, marker, topic_config

Key = tuple[str, int]

_THREADS = 4
_ids = count(100)  # never one twice, whichever broker it is
_SMALL = {"segment_bytes": 1500, "index_interval_bytes": 200}
CONFIGS: dict[str, TopicConfig] = {
    "a": topic_config(**_SMALL),
    "b": topic_config(**_SMALL, flush_messages=4, retention_bytes=4000),
    "c": topic_config(**_SMALL, preallocate=True, flush_messages=1),
}


def open_manager(fs: CrashFileSystem) -> LogManager:
    settings = BrokerConfig({"log.dirs": "/data/one,/data/two"})
    return ClockedLogs(
        fs,
        settings,
        new_uuid=lambda: next(_ids).to_bytes(16, "big"),
        topic_config=lambda topic: CONFIGS[topic],
    )


class Promises:
    """The promises made to the workload: the batches that were appended, and those that are certainly on disk."""

    def __init__(self) -> None:
        self.ids: dict[Key, bytes] = {}  # the metadata's topic ids; a folder with another id is of an earlier topic
        self.appended: dict[Key, dict[int, bytes]] = {}  # batches by base offset, as stored in the log
        self.synced: dict[Key, int] = {}  # end offset that was acknowledged after a sync
        self.start: dict[Key, int] = {}  # batches below this offset may be gone
        self.gone: set[Key] = set()  # partitions being deleted: their folders may exist or not

    def so_far(self) -> object:
        """Return all promises in a form that can be compared with the promises of another time."""
        appended = tuple((key, tuple(batches.items())) for key, batches in self.appended.items())
        known = (tuple(each.items()) for each in (self.ids, self.synced, self.start))
        return (*known, frozenset(self.gone), appended)

    def forget(self, key: Key) -> None:
        for known in (self.synced, self.start, self.appended):
            known.pop(key, None)

    def cut(self, key: Key, end: int) -> None:
        """Forget all batches from `end` on, and every promise about them."""
        batches = self.appended.get(key, {})
        for base in [base for base in batches if base >= end]:
            del batches[base]
        if key in self.synced:
            self.synced[key] = min(self.synced[key], end)


class Threads:
    """Jobs that were submitted, and those that have run and wait to be applied."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._submitted: list[Job] = []
        self._done: list[tuple[Job, OSError | None]] = []

    def submit(self, job: Job) -> None:
        self._submitted.append(job)

    def step(self) -> bool:
        """Run or apply one of the jobs, drawn at random; return False if there is none."""
        runnable, done = len(self._submitted[:_THREADS]), len(self._done)
        if not runnable + done:
            return False
        number = self._random.randrange(runnable + done)
        if number < done:
            job, error = self._done.pop(number)
            if error is None:
                job.apply()
            else:
                job.failed(error)
        else:
            job = self._submitted.pop(number - done)
            self._done.append((job, _outcome(job)))
        return True

    def drain(self) -> None:
        while self.step():
            pass

    def lose(self) -> None:
        self._submitted.clear()
        self._done.clear()


def _outcome(job: Job) -> OSError | None:
    try:
        job.run()
    except OSError as error:
        return error
    return None


class Workload:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.threads = Threads(self.random)
        self.promises = Promises()
        self.now = NOW
        self.sequences: dict[Key, int] = {}
        self.did: set[str] = set()

    def run(self, steps: int) -> None:
        self.start()
        for _ in range(steps):
            self.now += 1000
            operation = self.random.choice(
                [
                    *[self.produce] * 6,
                    *[self.flush] * 2,
                    *(self.transaction, self.create, self.delete_topic, self.delete_records, self.retain, self.move),
                    *(self.roll, self.upkeep, self.truncate, self.begin_anew, self.restart),
                    *(self.new_epoch, self.power_cut),
                ]
            )
            operation()
            self.did.add(operation.__name__)
            for _ in range(self.random.randrange(6)):
                self.threads.step()

    def start(self) -> None:
        self.logs = open_manager(self.fs)
        self.logs.submit = self.threads.submit
        self.logs.start(self.now)
        for key in sorted(self.logs.partitions()):
            self.logs.get(*key)

    def log(self) -> tuple[Key, PartitionLog]:
        if not self.logs.loaded:
            self.create()
        key = self.random.choice(sorted(self.logs.loaded))
        return key, self.logs.loaded[key]

    # -- appends

    def produce(self) -> None:
        key, log = self.log()
        for _ in range(self.random.randrange(1, 6)):
            count = self.random.randrange(1, 4)
            sequence = self.sequences.get(key, 0)
            data = batch(
                count, self.random.randrange(400), timestamp=self.now, producer_id=1, epoch=0, sequence=sequence
            )
            self.append(key, log, data)
            self.sequences[key] = sequence + count

    def append(self, key: Key, log: PartitionLog, data: bytearray, origin: Origin = Origin.CLIENT) -> None:
        # known before it is written: a crash in the middle of the append may leave it whole
        expected = bytearray(data)
        expected[0:8] = log.log_end_offset.to_bytes(8, "big")
        expected[12:16] = log.epochs.current.to_bytes(4, "big")
        self.promises.appended.setdefault(key, {})[log.log_end_offset] = bytes(expected)
        log.append(data, self.now, origin=origin)
        if log.config.flush_messages == 1:
            self.logs.flush(log, self.now, self.heard(key, log))

    def heard(self, key: Key, log: PartitionLog) -> Waiter:
        end = log.log_end_offset

        def done(error: OSError | None) -> None:
            if error is None and self.logs.loaded.get(key) is log:
                self.promises.synced[key] = max(end, self.promises.synced.get(key, 0))

        return done

    def transaction(self) -> None:
        key, log = self.log()
        data = batch(2, 50, timestamp=self.now, producer_id=2, epoch=0, transactional=True)
        self.append(key, log, data, Origin.COORDINATOR)
        commit = self.random.random() < 0.5
        self.append(key, log, marker(2, 0, commit=commit, timestamp=self.now), Origin.COORDINATOR)

    def new_epoch(self) -> None:
        _, log = self.log()
        log.epochs.current += 1

    def flush(self) -> None:
        key, log = self.log()
        self.logs.flush(log, self.now, self.heard(key, log))

    def roll(self) -> None:
        _, log = self.log()
        log.roll(self.now)

    # -- removals

    def create(self) -> None:
        key = self.random.choice(sorted(CONFIGS)), self.random.randrange(2)
        if not self.logs.exists(*key):
            self.promises.gone.discard(key)
            self.promises.ids[key] = next(_ids).to_bytes(16, "big")
            self.logs.create(*key, self.promises.ids[key], self.now)

    def delete_topic(self) -> None:
        if self.random.random() < 0.5:
            self.delete(self.log()[0])

    def delete(self, key: Key) -> None:
        self.promises.gone.add(key)
        self.sequences.pop(key, None)
        self.promises.synced.pop(key, None)
        self.logs.delete(*key, self.now)
        self.promises.forget(key)

    def delete_records(self) -> None:
        key, log = self.log()
        if log.high_watermark > log.log_start_offset:
            target = self.random.randrange(log.log_start_offset, log.high_watermark + 1)
            self.promises.start[key] = max(target, self.promises.start.get(key, 0))
            log.delete_records_before(target)

    def retain(self) -> None:
        key, log = self.log()
        start = self.promises.start.get(key, 0)
        if log.config.retention_bytes > 0:
            self.promises.start[key] = log.high_watermark  # in the middle of it
        retain(log, self.now)
        self.promises.start[key] = max(start, log.log_start_offset)

    def truncate(self) -> None:
        key, log = self.log()
        start = max(log.log_start_offset, log.log_end_offset - 12)
        if key in self.logs.moves or log.log_end_offset <= start:
            return
        wanted = self.random.randrange(start, log.log_end_offset)
        bases = [base for base in self.promises.appended[key] if base <= wanted]
        end = max(bases, default=log.log_start_offset)  # a batch goes whole
        kept = dict(self.promises.appended[key])
        self.promises.cut(key, end)
        self.promises.appended[key] = kept  # a crash during the truncation may leave these batches
        log.truncate_to(end)
        self.promises.cut(key, end)
        self.sequences[key] = next_sequence(log)

    def begin_anew(self) -> None:
        """Begin a log anew, as for a leader that has none of its records."""
        key, log = self.log()
        if key in self.logs.moves:
            return
        start = log.log_end_offset + self.random.randrange(20)
        self.promises.synced.pop(key, None)
        self.promises.start[key] = start  # a crash meanwhile may leave all, some or none of the batches
        log.restart_at(start, self.now)
        self.promises.appended.pop(key, None)
        self.sequences[key] = next_sequence(log)
        if self.random.random() < 0.5:
            self.upkeep()  # before anything is synced

    # -- the life of the broker

    def move(self) -> None:
        key, _ = self.log()
        self.logs.moves.start(key, self.random.choice(self.logs.directories))

    def upkeep(self) -> None:
        self.now += self.random.choice([6_000, 70_000])
        self.logs.on_deadline(self.now)

    def restart(self) -> None:
        self.logs.stop_jobs()
        self.threads.drain()
        self.logs.shutdown(self.now)
        for key, log in self.logs.loaded.items():
            self.promises.synced[key] = log.log_end_offset
        self.start()

    def power_cut(self) -> None:
        """Cut the power, half of the times, and go on with what is left on the disk."""
        if self.random.random() < 0.5:
            return
        fs = self.fs.after_crash(self.random.randrange(1 << 30))
        fs.on_operation, self.fs.on_operation = self.fs.on_operation, None
        self.fs = fs
        self.threads.lose()
        self.start()
        for key in sorted(self.logs.partitions()):  # as the metadata say
            log = self.logs.get(*key)
            if key in self.promises.gone or log.topic_id != self.promises.ids[key]:
                self.logs.delete(*key, self.now)
        for key in set(self.promises.appended) - set(self.logs.partitions()):
            self.promises.forget(key)
        for key, log in self.logs.loaded.items():
            self.promises.cut(key, log.log_end_offset)
            self.sequences[key] = next_sequence(log)


def next_sequence(log: PartitionLog) -> int:
    entry = log.producers.entries.get(1)
    return 0 if entry is None else entry.last_sequence + 1
