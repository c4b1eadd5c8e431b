"""Ids that name no directory."""

from __future__ import annotations

from pykafka_broker.log.directory_ids import LOST, MIGRATING, UNASSIGNED, is_reserved


def test_the_lowest_hundred_ids_name_no_directory() -> None:
    assert [(MIGRATING, UNASSIGNED, LOST).index(number.to_bytes(16, "big")) for number in range(3)] == [0, 1, 2]
    assert all(is_reserved(number.to_bytes(16, "big")) for number in range(100))
    assert not is_reserved((100).to_bytes(16, "big"))
    assert not is_reserved(b"\x80" + bytes(15))  # ids are no signed numbers
