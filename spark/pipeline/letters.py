"""Dead letters. Rule: a dead letter always fits into its topic. What is cut is said in its headers, with the length and
the SHA-256 of the whole, and the record can be read again at its topic, partition and offset.

The limit is the smallest of the topic's `max.message.bytes`, the producer's `max.request.size` and `buffer.memory`. It
counts the record as the producer does, uncompressed and alone in its batch. A record that fits stays as it is. Of one
that does not, a key over a quarter of the limit is cut, headers over a quarter are left out, and the value gets the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline import events, topics
from pipeline.errors import SettingsError
from pipeline.kafka import Kafka
from pipeline.settings import Settings

DEFAULTS = {"max.request.size": 1_048_576, "buffer.memory": 33_554_432}  # of Kafka's Java producer
BATCH_BYTES = 61  # before the first record of a batch
RECORD_BYTES = 21  # of a record, at most, beside key, value and headers
HEADER_BYTES = 10  # the two lengths of a header, at most
LONGEST_REASON = 512  # characters
OWN_BYTES = 4 * LONGEST_REASON + 1_100  # all headers of ours: a reason, twice the name of a topic (249 bytes), digests
SMALLEST_LIMIT = 2 * OWN_BYTES


def limit(settings: Settings, kafka: Kafka) -> int:
    """Return how many bytes a record of the dead-letter topic may have.

    Raises:
        SettingsError: one of the three is no number, or so small that our own headers do not fit.
    """
    topic = settings.dead_letter_topic
    known = {
        f"max.message.bytes of topic {topic}": kafka.max_message_bytes(topic),
        **{f"kafka {name}": _number(settings, name, default) for name, default in DEFAULTS.items()},
    }
    name = min(known, key=known.__getitem__)
    if known[name] < SMALLEST_LIMIT:
        raise SettingsError(f"{name} is {known[name]}, and a dead letter needs {SMALLEST_LIMIT}")
    return known[name]


def _number(settings: Settings, name: str, default: int) -> int:
    try:
        return int(settings.kafka.get(name, default))
    except ValueError as error:
        raise SettingsError(f"kafka {name} is {settings.kafka[name]!r}, and has to be a number of bytes") from error


def dead_letters(rejected: DataFrame, limit_bytes: int, keep: Sequence[str] = ()) -> DataFrame:
    """Return the records as they came, or what fits of them, with the reason and where they are from in their headers.
    `keep`: columns to keep beside those of the letter."""
    room = limit_bytes - BATCH_BYTES - RECORD_BYTES - OWN_BYTES
    key, value, headers = F.col("_key"), F.col("_value"), F.col("_headers")
    fits = _length(key) + _length(value) + _headers_length(headers) <= room
    is_key_cut = ~fits & (_length(key) > room // 4)
    are_headers_left_out = ~fits & (_headers_length(headers) > room // 4)
    kept = rejected.select(
        "*",
        F.when(is_key_cut, key.substr(1, room // 4)).otherwise(key).alias("key"),
        F.when(~are_headers_left_out, headers).alias("_kept"),
    )
    rest = F.lit(room) - _length(F.col("key")) - _headers_length(F.col("_kept"))
    own = [topics.header("reason", F.col(events.REASON).substr(1, LONGEST_REASON))]
    own += [topics.header(f"source-{name.removeprefix('_')}", F.col(name)) for name in events.ORIGIN]
    cut = [
        *_whole("key", key, is_key_cut),
        *_whole("value", value, _length(value) > rest),
        *_whole("headers", _names_and_values(headers), are_headers_left_out),
    ]
    said = F.filter(F.array(*cut), lambda entry: entry["value"].isNotNull())
    return kept.select(
        "key",
        F.when(_length(value) > rest, value.substr(F.lit(1), rest)).otherwise(value).alias("value"),
        F.concat(topics.with_headers(F.col("_kept"), own), said).alias("headers"),
        events.SOURCE_ID,
        *keep,
    )


def _whole(name: str, whole: Column, is_cut: Column) -> list[Column]:
    """Return headers with length and digest of something that is cut; their values are null where nothing is."""
    return [
        topics.header(f"source-{name}-length", F.when(is_cut, F.octet_length(whole))),
        topics.header(f"source-{name}-sha256", F.when(is_cut, F.sha2(whole, 256))),
    ]


def _length(bytes_or_null: Column) -> Column:
    return F.coalesce(F.octet_length(bytes_or_null), F.lit(0))


def _headers_length(headers: Column) -> Column:
    """Return the most bytes that headers take in a record; 0 without headers."""

    def add(taken: Column, entry: Column) -> Column:
        return taken + F.octet_length(entry["key"]) + _length(entry["value"]) + HEADER_BYTES

    return F.coalesce(F.aggregate(headers, F.lit(0), add), F.lit(0))


def _names_and_values(headers: Column) -> Column:
    """Return names and values of all headers, one after the other."""
    texts = F.transform(
        headers, lambda entry: F.concat(F.hex(entry["key"]), F.coalesce(F.hex(entry["value"]), F.lit("")))
    )
    return F.unhex(F.array_join(texts, ""))
