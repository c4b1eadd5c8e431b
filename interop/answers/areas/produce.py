"""Produce: every check that a broker makes before it appends, and what it answers when one fails."""

from interop.answers.requests import BY_NAME, create, fetch, fetch_topic, new_topic, produce
from interop.answers.script import Ask, Name, Script, scenario
from interop.batches import Rec, batch, patched
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest

UNKNOWN_ID = bytes(range(16))
LOADING = (14,)  # a real broker fetches its first block of producer ids when it is asked for one


def put(label: str, topic: str, *batches: bytes | None, version: int = BY_NAME, **options: int) -> Ask:
    return Ask(label, produce(topic, *batches, **options), version)  # type: ignore[arg-type]


@scenario
def write(name: Name) -> Script:
    created = yield "create", create(new_topic(name("a"), 2))
    topic_id = created.topics[0].topic_id
    for acks in (1, -1):
        yield put(f"acks {acks}", name("a"), batch(b"x", b"y"), acks=acks)
    yield put("acks 2", name("a"), batch(b"x"), acks=2)
    yield "by id", produce(topic_id, batch(b"x"))
    yield "unknown id", produce(UNKNOWN_ID, batch(b"x"))
    yield put("unknown topic", name("none"), batch(b"x"))
    yield put("unknown partition", name("a"), batch(b"x"), partition=9)
    yield put("negative partition", name("a"), batch(b"x"), partition=-1)
    yield put("bad topic name", "a b", batch(b"x"))
    for version in range(3, 12):
        yield put(f"version {version}", name("a"), batch(b"x"), version=version)
    yield Ask("read", fetch([fetch_topic(name("a"))]), BY_NAME)


@scenario
def broken_batches(name: Name) -> Script:
    topic, good = name("a"), batch(b"a", b"b")
    yield "create", create(new_topic(topic))
    yield put("nothing", topic, b"")
    yield put("two batches", topic, good, good)
    yield put("bad crc", topic, patched(good, crc=1))
    yield put("a byte flipped", topic, good[:-1] + bytes([good[-1] ^ 1]))
    yield put("cut", topic, good[:-1])
    yield put("only a header", topic, good[:61])
    yield put("trailing bytes", topic, good + b"xyz")
    yield put("magic 3", topic, patched(good, magic=3))
    yield put("message set", topic, batch(b"x", magic=1))
    yield put("count too small", topic, patched(good, count=1))
    yield put("count too large", topic, patched(good, count=3))
    yield put("last offset delta too large", topic, patched(good, last_offset_delta=5))
    yield put("base offset set", topic, patched(good, base_offset=100))
    yield put("control batch", topic, patched(good, attributes=0x20))
    yield put("transactional without id", topic, patched(good, attributes=0x10, producer_id=1, producer_epoch=0))
    yield put("unknown codec", topic, patched(good, attributes=7))
    yield put("claims gzip", topic, patched(good, attributes=1))
    yield Ask("read", fetch([fetch_topic(topic)]), BY_NAME)


@scenario
def topic_rules(name: Name) -> Script:
    compacted, small, narrow, stamped = name("compact"), name("small"), name("narrow"), name("stamped")
    yield (
        "create",
        create(
            new_topic(compacted, configs={"cleanup.policy": "compact"}),
            new_topic(small, configs={"max.message.bytes": "200"}),
            new_topic(narrow, configs={"message.timestamp.before.max.ms": "1000"}),
            new_topic(stamped, configs={"message.timestamp.type": "LogAppendTime"}),
        ),
    )
    yield put("no key, compacted", compacted, batch(b"a"))
    yield put("one of two without key", compacted, batch(Rec(b"a", b"k"), b"b"))
    yield put("key, compacted", compacted, batch(Rec(b"a", b"k")))
    yield put("too large", small, batch(b"x" * 300))
    yield put("small enough", small, batch(b"x" * 20))
    yield put("too old", narrow, batch(Rec(b"x", None, 1000)))
    yield put("no timestamp", narrow, batch(Rec(b"x", None, -1)))
    yield put("append time", stamped, batch(b"x", b"y"))
    yield Ask("read append time", fetch([fetch_topic(stamped)]), BY_NAME)


@scenario
def idempotence(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    got = yield Ask("producer id", InitProducerIdRequest(None, 0), retry_on=LOADING)
    pid = got.producer_id

    def put_at(label: str, epoch: int, sequence: int, *values: bytes, producer: int = pid) -> Ask:
        return put(label, topic, batch(*values, producer=(producer, epoch, sequence)))

    yield put_at("first", 0, 0, b"a", b"b")
    yield put_at("first again", 0, 0, b"a", b"b")
    yield put_at("second", 0, 2, b"c")
    yield put_at("a gap", 0, 9, b"d")
    yield put_at("part of a duplicate", 0, 0, b"a")
    for i in range(3, 9):
        yield put_at(f"sequence {i}", 0, i, b"x")
    yield put_at("duplicate of five ago", 0, 4, b"x")
    yield put_at("duplicate of too long ago", 0, 0, b"a", b"b")
    yield put_at("next epoch, not from zero", 1, 9, b"x")
    yield put_at("next epoch", 1, 0, b"x")
    yield put_at("old epoch", 0, 9, b"x")
    yield put_at("unknown producer, from zero", 0, 0, b"x", producer=777_777)
    yield put_at("unknown producer, in the middle", 0, 5, b"x", producer=888_888)
    yield put("no sequence", topic, patched(batch(b"x"), producer_id=5, producer_epoch=0, base_sequence=-1))
    yield Ask("read", fetch([fetch_topic(topic)]), BY_NAME)


@scenario
def producer_ids(name: Name) -> Script:
    yield Ask("new", InitProducerIdRequest(None, 1000), retry_on=LOADING)
    yield "another", InitProducerIdRequest(None, 1000)
    for version in range(5):
        yield Ask(f"version {version}", InitProducerIdRequest(None, 1000), version)
    yield "empty transactional id", InitProducerIdRequest("", 1000)
