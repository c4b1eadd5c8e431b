"""A compacted topic whose batches unpack to thousands of times their size: its cleaning delays no client and takes
little memory of the broker, and batches that unpack to too much are left as they are.
"""

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from interop.answers.requests import BY_NAME, create, new_topic, produce
from interop.batches import patched
from interop.bombs import ZEROS, sealed, varint
from interop.conftest import NewBroker
from interop.processes import process_at
from interop.raw import RawClient
from interop.targets import Target
from interop.witness import Witness

pytestmark = [pytest.mark.ours_only, pytest.mark.one_broker("it looks into the files of the one that leads")]

TOPIC = "bombs"
BATCHES = 6
CLEANED_WITHIN_S = 60
# As in test_giants: a busy machine gets some room.
ADDED_MB, OTHERS_WAIT_P99_S = 100, 0.1
SETTINGS = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
FIRST_MS = 1_700_000_000_000


def _record(megabytes: int) -> Iterator[bytes]:
    body = b"\0\0\0" + varint(1) + b"k" + varint(megabytes << 20)
    yield varint(len(body) + (megabytes << 20) + 1) + body
    for _ in range((megabytes << 20) // len(ZEROS)):
        yield ZEROS
    yield b"\0"  # no headers


def _zstd(pieces: Iterator[bytes]) -> bytes:
    squeeze = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join([*map(squeeze.compress, pieces), squeeze.flush()])


def _gzip(pieces: Iterator[bytes]) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*map(squeeze.compress, pieces), squeeze.flush()])


PACK: dict[str, Callable[[Iterator[bytes]], bytes]] = {"zstd": _zstd, "gzip": _gzip}


@pytest.fixture
def broker(new_broker: NewBroker) -> Target:
    return new_broker(log_cleaner_backoff_ms=500, log_segment_delete_delay_ms=500)


def _write(broker: Target, codec: str, megabytes: int) -> Path:
    """Write batches with the same key, each in a segment of its own; return the folder of the log."""
    data = sealed(codec, PACK[codec](_record(megabytes)))
    with RawClient(broker.bootstrap_servers, 120) as client:
        assert not client.call(create(new_topic(TOPIC, 1, configs=SETTINGS))).topics[0].error_code
        for number in range(BATCHES):
            when = FIRST_MS + number * 1000
            answer = client.call(produce(TOPIC, patched(data, base_timestamp=when, max_timestamp=when)), BY_NAME)
            assert not answer.responses[0].partition_responses[0].error_code
    return broker.data_dir / f"{TOPIC}-0"


def _until(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + CLEANED_WITHIN_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_so()


def _logs(folder: Path) -> int:
    """Count the log files with records; the cleaner removes files meanwhile."""
    sizes = []
    for file in folder.glob("*.log"):
        with suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(size > 0 for size in sizes)


@pytest.mark.parametrize("codec", sorted(PACK))
def test_bombs_are_cleaned_beside_the_broker(broker: Target, codec: str) -> None:
    process = process_at(broker.bootstrap_servers)
    before = process.memory_info().rss / 2**20
    with Witness(broker.bootstrap_servers) as witness:
        folder = _write(broker, codec, 96)
        assert _until(lambda: _logs(folder) <= 2), sorted(file.name for file in folder.iterdir())
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    [peak] = [int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")]
    assert peak - before < ADDED_MB
    waits = sorted(witness.waits_s)
    assert waits[int(len(waits) * 0.99)] < OTHERS_WAIT_P99_S


def test_what_unpacks_to_too_much_is_left_as_it_is(broker: Target) -> None:
    folder = _write(broker, "zstd", 256)
    assert _until(lambda: "can't be cleaned and is left as it is" in broker.log_path.read_text(errors="replace"))
    assert _logs(folder) == BATCHES
    assert "Traceback" not in broker.log_path.read_text(errors="replace")
    with RawClient(broker.bootstrap_servers) as client:
        assert not client.call(create(new_topic("another", 1))).topics[0].error_code
