"""Answers that are bytes already."""

from __future__ import annotations

from pykafka_broker.broker.requests.encoded_reply import EncodedReply, ReplyCache
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.protocol.stored.topic_record import TopicRecord


def changed(image: MetadataImage, name: str) -> None:
    image.apply(TopicRecord(name, name.encode() * 16), MetadataDelta())


def test_the_bytes_are_written_as_they_are() -> None:
    pieces: list[bytes] = []
    EncodedReply(b"answer").write(3, pieces.append)
    assert pieces == [b"answer"]


def test_an_answer_is_kept_until_the_image_changes() -> None:
    cache, image = ReplyCache(), MetadataImage()
    assert cache.get(image, "asked") is None
    reply = cache.put(image, "asked", EncodedReply(b"answer"))
    assert cache.get(image, "asked") is reply
    assert cache.get(image, "something else") is None
    changed(image, "t")
    assert cache.get(image, "asked") is None


def test_an_answer_made_after_a_change_drops_those_before_it() -> None:
    cache, image = ReplyCache(), MetadataImage()
    cache.put(image, "old", EncodedReply(b"answer"))
    changed(image, "t")
    new = cache.put(image, "new", EncodedReply(b"answer"))
    assert (cache.get(image, "old"), cache.get(image, "new")) == (None, new)


def test_a_newer_answer_takes_the_place_of_the_one_before() -> None:
    cache, image = ReplyCache(most=2, most_bytes=100), MetadataImage()
    cache.put(image, "other", EncodedReply(b"answer"))
    for number in range(9):
        newest = cache.put(image, "asked", EncodedReply(bytes([number]) * 40))
    assert cache.get(image, "asked") is newest
    assert cache.get(image, "other") is not None


def test_there_are_never_more_than_so_many() -> None:
    cache, image = ReplyCache(most=2), MetadataImage()
    for asked in range(3):
        cache.put(image, asked, EncodedReply(b"answer"))
    assert [cache.get(image, asked) is not None for asked in range(3)] == [False, False, True]
