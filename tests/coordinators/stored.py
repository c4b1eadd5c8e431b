"""Records on their way through a log."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka_broker.coordinators.record import CoordinatorRecord, decode, encode
from pykafka_broker.protocol.specs import RecordSpec


def reread(record: CoordinatorRecord, types: Mapping[int, RecordSpec]) -> CoordinatorRecord:
    """Return a record as a load reads it from the log; it has to be the one that was replayed after the append."""
    read = decode(*encode(record), types)
    assert read is not None
    assert read == record, "what is replayed live is what a restart would read"
    return read
