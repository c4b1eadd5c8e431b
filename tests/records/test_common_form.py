"""Records of the common form: one alone is judged as many are, and many cost a few looks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka_broker.protocol.runtime import varint, varlong
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.common_form import NEVER, pass_common, pass_one
from pykafka_broker.records.header import HEADER_SIZE
from pykafka_broker.records.record import BatchRecord
from tests.records.samples import common_shapes


@settings(max_examples=100, deadline=None)
@given(common_shapes, st.booleans(), st.data())
def test_a_record_alone_is_judged_as_one_of_many(shape: Any, keyed: bool, data: st.DataObject) -> None:
    _, time, size, key, headers = shape
    fields = [b"\0" + varlong(time) + varint(0), varint(-1 if key is None else len(key)) + (key or b"")]
    fields += [varint(size) + bytes(size), varint(headers) + b"\x02h\x02v" * headers]
    payload = bytearray(varint(sum(map(len, fields))) + b"".join(fields))
    for _ in range(data.draw(st.integers(0, 2))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    times, whole = (-50, 9000), b"\0" + bytes(payload)
    stop, index, high, _ = pass_common(whole, 1, 0, 1, times, NEVER, 100, keyed=keyed, counted=True)
    alone, delta = pass_one(whole, 1, times, keyed=keyed)
    assert (alone == len(whole)) == (index == 1 and stop == len(whole))
    if alone == len(whole):
        assert delta == high


def test_records_of_one_shape_cost_a_few_looks() -> None:
    """9,000 records: were each looked at by itself, the looks would not do."""
    data = bytes(build_batch([BatchRecord(i, i // 100, None, bytes(100)) for i in range(9000)])[HEADER_SIZE - 1 :])
    position, number, high, _ = pass_common(data, 1, 0, 9000, (0, 1000), 0, 800, keyed=False, counted=True)
    assert (number, position, high) == (9000, len(data), 89)
