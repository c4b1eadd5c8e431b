"""The options of Spark's Kafka source. Rule: every option that the connector knows is either passed on by the table
`source`, or belongs to a setting that the pipeline depends on, and then the words of the refusal name the setting.

README's options page has a row for each, with the test that tries it against a broker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from pipeline.errors import SettingsError, perhaps

# Spark knows no upper and lower case in options; these are the spellings of its guide.
TOPICS = ("assign", "subscribePattern")
STARTING = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy")
STREAM_ONLY = (*TOPICS, *STARTING, "minOffsetsPerTrigger", "maxTriggerDelay")
READS = (
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
OPTIONS = (*STREAM_ONLY, *READS)
# Options that a setting stands for
SETTINGS = {
    "subscribe": "bronze_topic",
    "failOnDataLoss": "fail_on_data_loss",
    "maxOffsetsPerTrigger": "max_offsets_per_trigger",
    "endingOffsets": "to_offsets of the job replay: a stream has no end",
    "endingTimestamp": "to_timestamp of the job replay: a stream has no end",
    "endingOffsetsByTimestamp": "to_timestamp of the job replay: a stream has no end",
    "includeHeaders": "none: headers are always read",
    "topic": "the topics of the job",
}


def check(source: Mapping[str, str], bronze_topic: str, written: Iterable[str]) -> None:
    """Refuse what Spark would ignore without a word, and what would take the pipeline's ground away.

    Args:
        source: the options by name.
        bronze_topic: the topic that is read where the options name none.
        written: topics that the job writes to.

    Raises:
        SettingsError: an option is unknown or belongs to a setting, or the topics don't go together.
    """
    for name in source:
        if name.lower().startswith("kafka."):
            raise SettingsError(f"source: {name} is a config of the client: it goes into kafka, as {name[6:]}")
        if name in SETTINGS:
            raise SettingsError(f"source: {name} has a setting of its own: {SETTINGS[name]}")
        if name not in OPTIONS:
            raise SettingsError(f"source: there is no option {name}{perhaps(name, (*OPTIONS, *SETTINGS))}")
    if len(source.keys() & set(TOPICS)) > 1:
        raise SettingsError("source: assign and subscribePattern exclude each other")
    if "assign" in source and set(assigned(source) or {}) != {bronze_topic}:
        raise SettingsError(f"source: assign has to name partitions of {bronze_topic}, which bronze_topic names")
    if "subscribePattern" in source:
        for topic in written:
            if pattern(source).fullmatch(topic):
                raise SettingsError(f"source: subscribePattern matches {topic}, which the job writes to")


def assigned(source: Mapping[str, str]) -> dict[str, list[int]] | None:
    """Return the partitions of `assign` by topic; None where it is not set."""
    if "assign" not in source:
        return None
    try:
        found = json.loads(source["assign"], parse_float=str, parse_constant=str)  # fractions are refused, and not cut
        return {str(topic): [int(index) for index in indexes] for topic, indexes in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise SettingsError('source: assign has to be like {"events": [0, 1]}') from error


def pattern(source: Mapping[str, str]) -> re.Pattern[str]:
    """Return `subscribePattern`; Java's expressions and Python's are the same for what topics are named."""
    try:
        return re.compile(source["subscribePattern"])
    except re.error as error:
        raise SettingsError(f"source: subscribePattern is no regular expression: {error}") from error


def name_of(source: Mapping[str, str], bronze_topic: str) -> str:
    """Return what is read, in one word: the topic, or the pattern of the topics."""
    return f"pattern {source['subscribePattern']}" if "subscribePattern" in source else bronze_topic


def stream_options(
    source: Mapping[str, str], topic: str, starting_offsets: str, known: Mapping[int, int] | None
) -> dict[str, str]:
    """Return the options of a stream.

    Args:
        source: the table of the settings.
        topic: the topic to read where the table names none.
        starting_offsets: `earliest` or `latest`, where the table says nothing else.
        known: offsets by partition, where a run is to begin whatever the settings say; None for a first run.
    """
    options = {"subscribe": topic} if not source.keys() & set(TOPICS) else {}
    options |= source
    if known is not None:
        for name in STARTING:
            options.pop(name, None)
        indexes = (assigned(source) or {}).get(topic, known)
        begin = {str(index): offset for index, offset in known.items() if index in indexes}
        return options | {"startingOffsets": json.dumps({topic: begin})}
    return options if source.keys() & set(STARTING) else options | {"startingOffsets": starting_offsets}


def read_options(source: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a batch of given offsets heeds, too."""
    return {name: value for name, value in source.items() if name in READS}
