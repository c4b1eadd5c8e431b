"""Two brokers that get the same requests: one takes the short ways of requests, the other never does.

Rule: after every request both have given the same bytes, or wait for the same time, or have closed the connection with
the same words; and at the end both have the same files, producers and offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import Endpoint, PendingReply, Router
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from tests.broker.frames import joined
from tests.broker.support import LightBroker

CONNECTION = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))


class GeneralRouter(Router):
    """A router without short ways."""

    def _new_endpoint(self, api_key: int) -> Endpoint:
        endpoint = super()._new_endpoint(api_key)
        endpoint.short_way = None
        return endpoint


class Twins:
    """The brokers, with the same topics; `waiting` are the answers that both still owe."""

    def __init__(self, directory: Path, **config: str) -> None:
        self._directories = directory / "short", directory / "general"
        self.short, self.general = (LightBroker(each, **config) for each in self._directories)
        self.general.router = GeneralRouter(self.general.services)
        self.waiting: list[tuple[PendingReply, PendingReply]] = []

    @property
    def both(self) -> tuple[LightBroker, LightBroker]:
        return self.short, self.general

    def each(self, step: Callable[[LightBroker], Any]) -> Any:
        """Do the same to both; return what both have returned."""
        first, second = step(self.short), step(self.general)
        assert first == second
        return first

    def add(self, topic: str, **made: Any) -> bytes:
        """Make a topic on both; return its id."""
        topic_id: bytes = self.each(lambda broker: broker.add(topic, **made))
        return topic_id

    def ways(self, api_key: ApiKey) -> tuple[int, int]:
        """Return how many requests went the short and the general way."""
        return self.short.router.ways().get(api_key, (0, 0))

    def ask(self, frame: bytes | memoryview) -> bytes | None:
        """Return the answer of both, None where there is none or not yet."""
        answers = [self._asked(broker, frame) for broker in self.both]
        first, second = answers
        if isinstance(first, PendingReply) and isinstance(second, PendingReply):
            assert _wait_of(first) == _wait_of(second)
            self.waiting.append((first, second))
            self.settle()
            return None
        assert first == second
        self.settle()
        return first if isinstance(first, bytes) else None

    def _asked(self, broker: LightBroker, frame: bytes | memoryview) -> Any:
        try:
            found = broker.router.dispatch(CONNECTION, memoryview(bytearray(frame)))
        except FrameError as error:
            return str(error)
        return joined(found) if isinstance(found, list) else found

    def settle(self) -> list[bytes]:
        """Let requests that wait look again; return what both have answered now."""
        for broker in self.both:
            broker.settle(broker.now)
        return self._answered()

    def wait(self, ms: int) -> list[bytes]:
        """Let the time pass, deadline by deadline; return what both have answered meanwhile."""
        end, told = self.short.now + ms, []
        while (due := self.each(lambda broker: broker.next_deadline())) is not None and due <= end:
            for broker in self.both:
                broker.on_deadline(max(broker.now, due))
            told += self.settle()
        for broker in self.both:
            broker.now = end
        return told

    def hurry(self) -> list[bytes]:
        """Have the requests that wait answered with what there is, as another request of their connection does."""
        for pair in self.waiting:
            for broker, pending in zip(self.both, pair, strict=True):
                if pending.yields and isinstance(pending.future, Parked):
                    broker.purgatory.hurry(pending.future, broker.now)
        return self._answered()

    def _answered(self) -> list[bytes]:
        answers = []
        for pair in list(self.waiting):
            first, second = pair
            assert first.future.done == second.future.done
            if first.future.done:
                self.waiting.remove(pair)
                answers.append(joined(first.pieces()))
                assert answers[-1] == joined(second.pieces())
        return answers

    def compare(self) -> None:
        """Compare what both brokers have come to."""
        self.each(lambda broker: len(broker.purgatory))
        self.each(lambda broker: len(broker.services.fetch_sessions))
        assert dict(_logs(self.short)) == dict(_logs(self.general))

    def stop(self) -> None:
        """End both brokers, which must leave the same files."""
        self.compare()
        for broker in self.both:
            broker.stop(broker.now)
        left, right = (_files(directory) for directory in self._directories)
        assert left == right


def _wait_of(pending: PendingReply) -> tuple[Any, ...]:
    future = pending.future
    if not isinstance(future, Parked):
        return (pending.yields,)
    keys = [(key.topic, key.index) for key in future.keys]  # type: ignore[attr-defined]  # partitions
    return pending.yields, future.deadline, keys


def _logs(broker: LightBroker) -> Iterator[tuple[Any, Any]]:
    for key, log in broker.logs.loaded.items():
        producers = {
            producer: asdict(entry) | {"batches": list(entry.batches)}
            for producer, entry in log.producers.entries.items()
        }
        offsets = log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset
        sizes = [(segment.base_offset, segment.size, segment.max_timestamp) for segment in log.segments]
        yield (
            key,
            (offsets, log.recovery_point, log.epochs.entries, sizes, producers, log.producers.first_unstable_offset),
        )


def _files(directory: Path) -> dict[str, bytes]:
    """Return the files of the partitions' folders, without the metadata, which name the directory's own id."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.glob("*/*")
        if path.is_file() and not path.parent.name.startswith("__cluster_metadata")
    }
