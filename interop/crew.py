"""A group of members that are processes, and the producer that keeps them busy."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop import ROOT, group_view
from interop.waiting import eventually

# For librdkafka, whose only broker comes back soon: it would wait up to 10 s before it looks again, and 2.16 sometimes
# never ends the bootstrap that it begins anew when it has no broker left (KIP-899).
COMES_BACK: dict[str, Any] = {"reconnect.backoff.max.ms": 300, "metadata.recovery.strategy": "none"}
# Where the answer to a heartbeat comes late, librdkafka 2.16 drops the answer with the assignment in it, and never asks
# again: the member gives up no partition, and the group waits, with Kafka as well, until this time is over. Then the
# group goes on without the member, which joins anew.
CONSUMER_PROTOCOL: dict[str, Any] = {"group.protocol": "consumer", "max.poll.interval.ms": 10_000}


@dataclass(frozen=True)
class Kind:
    """A client and its settings, in the client's own names."""

    client: str
    settings: dict[str, Any]


def patient(session_timeout_ms: int) -> dict[str, Any]:
    """Settings of the classic protocol, as librdkafka names them."""
    return {"session.timeout.ms": session_timeout_ms, "heartbeat.interval.ms": 300}


def one_of_each(session_timeout_ms: int) -> list[Kind]:
    """Return a classic group of all clients, with the only assignor that all of them know."""
    settings = patient(session_timeout_ms)
    python = {key.replace(".", "_"): value for key, value in settings.items()}
    python["partition_assignment_strategy"] = ["roundrobin"]
    return [
        Kind("confluent", {**settings, **COMES_BACK, "partition.assignment.strategy": "roundrobin"}),
        Kind("kafka-python", {**python, "reconnect_backoff_max_ms": 300}),
        Kind("aiokafka", python),
    ]


class Member:
    """`interop.member` as a process."""

    def __init__(self, kind: Kind, bootstrap: str, group: str, topic: str, files: Path) -> None:
        command = [sys.executable, "-m", "interop.member", kind.client, bootstrap, group, topic]
        self.kind = kind
        self._values, self._log = files.with_suffix(".values"), files.with_suffix(".log")
        with self._values.open("ab") as out, self._log.open("ab") as err:
            self._process = subprocess.Popen([*command, json.dumps(kind.settings)], cwd=ROOT, stdout=out, stderr=err)

    @property
    def values(self) -> list[bytes]:
        """Return the values that the member has read; a line that is still being written does not count."""
        return self._values.read_bytes().split(b"\n")[:-1]

    @property
    def log(self) -> str:
        return self._log.read_text()[-2_000:]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask_to_leave(self) -> None:
        self._process.terminate()

    def await_end(self, timeout_s: float = 60) -> None:
        status = self._process.wait(timeout_s)
        # On a busy machine a member that has only just started may not hear the signal yet.
        assert status == 0 or (status == -signal.SIGTERM and not self.values), self.log


class Feed:
    """A producer that writes numbered records to the partitions in turn until told to stop."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, pause_s: float) -> None:
        self._pause_s = pause_s
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        self._producer = Producer(settings | COMES_BACK)
        self._topic, self._partitions, self.sent = topic, partitions, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(10):
                self._producer.produce(self._topic, b"%d" % self.sent, partition=self.sent % self._partitions)
                self.sent += 1
            self._producer.poll(0)
            self._stop.wait(self._pause_s)

    def stop(self) -> None:
        """Wait until everything is acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


class Crew:
    """A group, a topic of its own, and a running producer."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        directory: Path,
        partitions: int = 6,
        *,
        pause_s: float = 0.01,
        replicas: int = 1,
    ) -> None:
        self.group, self.topic = group, f"{group}-topic"
        self._bootstrap, self._directory, self._partitions = bootstrap, directory, partitions
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(self.topic, partitions, replicas)])[self.topic].result(60)
        self.members: list[Member] = []
        self._everyone: list[Member] = []
        self.feed = Feed(bootstrap, self.topic, partitions, pause_s)

    def start(self, kind: Kind) -> Member:
        member = self._started(kind)
        self.members.append(member)
        return member

    def _started(self, kind: Kind) -> Member:
        files = self._directory / f"{len(self._everyone)}-{kind.client}"
        member = Member(kind, self._bootstrap, self.group, self.topic, files)
        self._everyone.append(member)
        return member

    def leave(self, member: Member, timeout_s: float = 60) -> None:
        self.members.remove(member)
        member.ask_to_leave()
        member.await_end(timeout_s)

    def kill(self, member: Member) -> None:
        self.members.remove(member)
        member.kill()

    def replace_the_dead(self) -> None:
        """Start ended members again, as an operator would: some clients end when their only broker goes away."""
        for place, member in enumerate(self.members):
            if not member.running:
                self.members[place] = self._started(member.kind)

    @property
    def seen(self) -> Counter[bytes]:
        return Counter(value for member in self._everyone for value in member.values)

    @property
    def logs(self) -> str:
        return "".join(f"--- {number}\n{member.log}" for number, member in enumerate(self._everyone))

    def described(self) -> dict[str, int]:
        """Return the number of partitions of each member, by member id."""
        return group_view.shares(self._bootstrap, self.group)

    def await_shares(self, timeout_s: float = 60) -> None:
        """Wait until the members have the same number of partitions each, and the dead are gone."""
        shares = [self._partitions // len(self.members)] * len(self.members)
        deadline = time.monotonic() + timeout_s
        while (found := sorted(self.described().values())) != shares and time.monotonic() < deadline:
            self.check_health()
            time.sleep(0.1)
        assert found == shares, f"the members have {found} partitions\n{self.logs}"

    def committed(self) -> dict[int, int]:
        """Return the committed offset of each partition."""
        return group_view.committed(self._bootstrap, self.group)

    def log_ends(self) -> dict[int, int]:
        """Return for each partition the offset that its next record gets."""
        return group_view.log_ends(self._bootstrap, self.topic, self._partitions)

    def check_health(self) -> None:
        """Check that every member still runs."""
        assert all(member.running for member in self.members), self.logs

    def finish(self, timeout_s: float = 60) -> None:
        """Stop the producer; check that every record is read, every offset committed and every living member well."""
        self.feed.stop()
        sent = {b"%d" % number for number in range(self.feed.sent)}
        deadline = time.monotonic() + timeout_s
        while (missing := sent - self.seen.keys()) and time.monotonic() < deadline:
            self.check_health()
            time.sleep(0.1)
        assert not missing, f"{len(missing)} of {len(sent)} were never read, as {sorted(missing)[:5]}\n{self.logs}"
        eventually(self.committed, self.log_ends())
        self.check_health()
        for member in self.members:
            member.ask_to_leave()
        for member in self.members:
            member.await_end()
        assert self.committed() == self.log_ends()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.feed.stop()
        for member in self._everyone:
            member.kill()
