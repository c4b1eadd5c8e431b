"""Fetch: limits, positions, sessions, epochs."""

from interop.answers.requests import BY_NAME, create, fetch, fetch_topic, new_topic, produce
from interop.answers.script import Ask, Name, Script, scenario
from interop.batches import batch
from pykafka_broker.protocol.messages.fetch_request import FetchRequest, ForgottenTopic

UNKNOWN_ID = bytes(range(16))


def get(label: str, request: FetchRequest, version: int = BY_NAME) -> Ask:
    return Ask(label, request, version)


def ten_batches(topic: str) -> Script:
    for i in range(10):
        yield Ask("write", produce(topic, batch(b"%d" % i, b"+%d" % i)), BY_NAME)


@scenario
def positions(name: Name) -> Script:
    topic = name("a")
    created = yield "create", create(new_topic(topic, 2))
    topic_id = created.topics[0].topic_id
    yield from ten_batches(topic)
    yield get("from the start", fetch([fetch_topic(topic)]))
    yield get("in the middle of a batch", fetch([fetch_topic(topic, 17)]))
    yield get("at the end", fetch([fetch_topic(topic, 20)]))
    yield get("beyond the end", fetch([fetch_topic(topic, 21)]))
    yield get("negative", fetch([fetch_topic(topic, -1)]))
    yield get("empty partition", fetch([fetch_topic(topic, 0, 1)]))
    yield get("unknown partition", fetch([fetch_topic(topic, 0, 9)]))
    yield get("unknown topic", fetch([fetch_topic(name("none"))]))
    yield "by id", fetch([fetch_topic(topic_id, 18)])
    yield "unknown id", fetch([fetch_topic(UNKNOWN_ID)])
    yield get("nothing asked", fetch([]))
    for version in range(4, 12):
        yield get(f"version {version}", fetch([fetch_topic(topic, 18)]), version)


@scenario
def limits(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic, 2))
    yield from ten_batches(topic)
    yield get("one byte", fetch([fetch_topic(topic, partition_max_bytes=1)]))
    yield get("one byte in all", fetch([fetch_topic(topic)], max_bytes=1))
    yield get("two batches and a half", fetch([fetch_topic(topic, partition_max_bytes=190)]))
    both = [fetch_topic(topic, partition_max_bytes=1), fetch_topic(topic, 0, 1)]
    yield get("two partitions", fetch(both))
    yield get("zero bytes", fetch([fetch_topic(topic, partition_max_bytes=0)]))
    yield get("committed only", fetch([fetch_topic(topic, 18)], isolation_level=1))
    yield get("unknown isolation level", fetch([fetch_topic(topic, 18)], isolation_level=7))
    yield get("a wait that ends empty", fetch([fetch_topic(topic, 20)], max_wait_ms=50, min_bytes=1))


@scenario
def leader_epochs(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic))
    yield Ask("write", produce(topic, batch(b"x")), BY_NAME)
    yield get("current epoch", fetch([fetch_topic(topic, current_leader_epoch=0)]))
    yield get("future epoch", fetch([fetch_topic(topic, current_leader_epoch=5)]))
    yield get("last fetched epoch", fetch([fetch_topic(topic, 1, last_fetched_epoch=0)]))
    yield get("last fetched epoch of the future", fetch([fetch_topic(topic, 1, last_fetched_epoch=3)]))


@scenario
def sessions(name: Name) -> Script:
    topic = name("a")
    yield "create", create(new_topic(topic, 3))
    yield Ask("write", produce(topic, batch(b"x")), BY_NAME)
    three = [fetch_topic(topic, 0, p) for p in range(3)]
    opened = yield get("open", fetch(three, session_epoch=0))
    session = opened.session_id

    def go_on(label: str, epoch: int, *topics: object, **more: object) -> Ask:
        return get(label, fetch(topics, session_id=session, session_epoch=epoch, **more))  # type: ignore[arg-type]

    yield go_on("again, nothing moved", 1)
    yield Ask("write to another", produce(topic, batch(b"y"), partition=1), BY_NAME)
    yield go_on("only what changed", 2, fetch_topic(topic, 1, 0))
    yield go_on(
        "forget one", 3, fetch_topic(topic, 1, 1), forgotten_topics_data=[ForgottenTopic(topic, partitions=[2])]
    )
    yield go_on("add an unknown one", 4, fetch_topic(topic, 0, 9))
    yield go_on("wrong epoch", 9)
    yield get("unknown session", fetch([], session_id=123_456_789, session_epoch=1))
    yield go_on("close", -1)
    yield go_on("after the close", 5)
