"""An hour of everything, with --slow: clients of four kinds produce, read, commit and come and go, while the broker is
killed, its disk runs full and its clock is set. All that was acknowledged is there afterwards; and the broker is as
small, and as quick, at the end of a long life as at its beginning.

`--soak-minutes` makes it shorter. A life takes a quarter of it: kills, then signs of life, then minutes of full disks,
clocks that go back and members that leave without a word, then the same signs again.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from interop.crew import COMES_BACK, CONSUMER_PROTOCOL, Crew, Kind, one_of_each
from interop.numbered import NumberedProducer, check_no_gaps, check_once_in_order, check_places, create, read_all
from interop.numbered_offsets import NumberedOffsets
from interop.numbered_python import NumberedAiokafka, NumberedKafkaPython
from interop.numbered_transactions import NumberedTransactions, check_markers
from interop.small_disk import small_disk, use_up
from interop.stepped_broker import SteppedBroker
from interop.vital_signs import VitalSigns, measure
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.tool.verify import verify

pytestmark = [pytest.mark.ours_only, pytest.mark.slow]

LIVES = 4
KILLED_FOR = 0.2  # the part of a life's time, at its begin, with kills
DISK_MB = 2_000
GOES_ON_WITHIN_S = 90
SESSION_MS = 15_000  # the time that a group waits for a member that was killed
CLOCK_IS_OFF_MINUTES = 25  # `message.timestamp.after.max.ms` is an hour
CONSUMERS = [Kind("confluent", {**COMES_BACK, **CONSUMER_PROTOCOL})] * 2
TRANSACTIONAL = ["transactions-a", "transactions-b"]
ROLLING = {"segment.bytes": 1_048_576, "retention.bytes": 3_000_000}
TOPICS: dict[str, Mapping[str, object]] = {
    **{topic: {} for topic in TRANSACTIONAL},
    "offsets": {},
    "numbered": {},
    "kafka-python": {},
    "aiokafka": {},
    "beats": ROLLING,
}
BROKER = {
    "log.retention.check.interval.ms": 5_000,
    "log.cleaner.backoff.ms": 1_000,
    "log.segment.delete.delay.ms": 1_000,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SteppedBroker]:
    with (
        small_disk(tmp_path / "disk", DISK_MB) as disk,
        SteppedBroker(BROKER, disk / "data", tmp_path / "clock-step") as running,
    ):
        yield running


class Load(Protocol):
    """Clients that write and remember their records."""

    def start(self) -> None: ...

    def finish(self) -> None: ...

    def check(self) -> None: ...


class Soak:
    """The clients, and what happens to their broker."""

    def __init__(self, broker: SteppedBroker, files: Path, stack: ExitStack) -> None:
        self._broker, self._where = broker, broker.bootstrap_servers
        self.kills, self.disturbances, self.slowest_start_s = 0, 0, 0.0
        self._disk = broker.data_dir.parent
        self._dice = random.Random(11)
        create(self._where, TOPICS)
        self._numbered = NumberedProducer(self._where, ["numbered"], burst=10, pause_s=0.1, enable_idempotence=True)
        self._transactions = NumberedTransactions(self._where, TRANSACTIONAL, "soak", 0.05)
        self._offsets = NumberedOffsets(self._where, "offsets", 0.1)
        self._python = [
            NumberedKafkaPython(self._where, "kafka-python", 0.02),
            NumberedAiokafka(self._where, "aiokafka", 0.02),
        ]
        self._crews: list[tuple[Crew, list[Kind]]] = []
        for name, kinds in (("classic", one_of_each(SESSION_MS)), ("consumers", CONSUMERS)):
            (files / name).mkdir()
            crew = stack.enter_context(Crew(self._where, name, files / name, pause_s=0.1))
            for kind in kinds:
                crew.start(kind)
            self._crews.append((crew, kinds))
        for crew, _ in self._crews:
            crew.await_shares()
        self._numbered.resume()
        stack.callback(self._numbered.pause)  # also when the test fails
        self._loads: list[Load] = [self._transactions, self._offsets, *self._python]
        for load in self._loads:
            load.start()
            stack.callback(load.finish)

    def live(self, seconds: float) -> tuple[VitalSigns, VitalSigns]:
        """Kill the broker several times, then disturb one long life; return the vital signs at its begin and end."""
        begin = time.monotonic()
        while time.monotonic() < begin + seconds * KILLED_FOR:
            time.sleep(self._dice.uniform(0.2, 3))
            self._broker.kill()
            start = time.monotonic()
            self._broker.restart()
            self.kills += 1
            self.slowest_start_s = max(self.slowest_start_s, time.monotonic() - start)
        self._await_everybody()
        born = measure(self._where, "beats")
        disturbances = [self._fill_disk, self._set_clock, self._replace_member]
        while True:  # each disturbance at least once, however slow the machine
            self._dice.shuffle(disturbances)
            for disturb in disturbances:
                disturb()
                self.disturbances += 1
                time.sleep(self._dice.uniform(1, 5))
            if time.monotonic() > begin + seconds:
                break
        self._broker.set_clock(0)
        self._await_everybody()
        return born, measure(self._where, "beats")

    def _fill_disk(self) -> None:
        rest = use_up(self._disk)
        time.sleep(self._dice.uniform(1, 4))
        rest.unlink()

    def _set_clock(self) -> None:
        self._broker.set_clock(self._dice.uniform(-CLOCK_IS_OFF_MINUTES, CLOCK_IS_OFF_MINUTES))

    def _replace_member(self) -> None:
        crew, kinds = self._dice.choice(self._crews)
        place = self._dice.randrange(len(kinds))
        if self._dice.random() < 0.5:
            crew.kill(crew.members[place])
        else:
            crew.leave(crew.members[place], GOES_ON_WITHIN_S)
        crew.members.insert(place, crew.start(kinds[place]))
        crew.members.pop()

    def _await_everybody(self) -> None:
        """Wait until each kind of client has made progress."""
        signs: dict[str, Callable[[], int]] = {
            "the idempotent producer": lambda: len(self._numbered.acknowledged["numbered"]),
            "transactions": lambda: len(self._transactions.committed),
            "offsets": lambda: self._offsets.commits,
            "kafka-python": lambda: len(self._python[0].acknowledged),
            "aiokafka": lambda: len(self._python[1].acknowledged),
        }
        signs |= {crew.group: lambda crew=crew: sum(crew.committed().values()) for crew, _ in self._crews}  # type: ignore[misc]
        for crew, _ in self._crews:
            crew.replace_the_dead()
        before = {name: look() for name, look in signs.items()}
        deadline = time.monotonic() + GOES_ON_WITHIN_S
        while stuck := [name for name, look in signs.items() if look() <= before[name]]:
            assert time.monotonic() < deadline, f"does not go on: {stuck}, {self._given_up()}"
            time.sleep(0.2)
        for crew, _ in self._crews:
            crew.await_shares(GOES_ON_WITHIN_S)

    def _given_up(self) -> dict[str, list[str]]:
        """Return the last errors of each load after which its producer was replaced."""
        python = {type(load).__name__: load.given_up[-2:] for load in self._python}
        return {"transactions": self._transactions.given_up[-2:], **python}

    def finish(self) -> str:
        """Check that everything acknowledged is there; return a line that counts it."""
        self._numbered.pause()
        self._numbered.finish()
        for load in self._loads:
            load.finish()
        for crew, _ in self._crews:
            crew.finish(120)
        for load in self._loads:
            load.check()
        found, acknowledged = read_all(self._where, "numbered"), self._numbered.acknowledged["numbered"]
        check_places(found, acknowledged)
        check_once_in_order(found)
        check_no_gaps(found)
        self._broker.stop()
        damage = [row for row in verify(OsFileSystem(), str(self._broker.data_dir)) if row["type"] == "error"]
        assert not damage
        for topic in TRANSACTIONAL:
            check_markers(self._broker.data_dir, topic)
        records = sum(len(load.acknowledged) for load in self._python) + len(acknowledged)
        read = sum(len(crew.seen) for crew, _ in self._crews)
        commits = f"{len(self._transactions.committed):,} transactions, {self._offsets.commits:,} commits"
        met = f"{self.kills} kills (starts up to {self.slowest_start_s:.1f} s), {self.disturbances} disturbances"
        written = f"{met}, {records:,} records, {commits}"
        return f"{written}, {read:,} records read by groups; given up: {self._given_up()}"


@pytest.mark.timeout(3 * 3_600)
def test_it_stays_as_it_was(broker: SteppedBroker, tmp_path: Path, soak_minutes: float) -> None:
    worse = []
    with ExitStack() as stack:
        soak = Soak(broker, tmp_path, stack)
        lives = [soak.live(soak_minutes * 60 / LIVES) for _ in range(LIVES)]
        for born, old in [*lives, (lives[0][0], lives[-1][1])]:
            print(born, old, sep="\n", end="\n\n")
            worse += old.worse_than(born)
        print(soak.finish())
    assert not worse
    assert "Traceback" not in broker.log_path.read_text(errors="replace")
