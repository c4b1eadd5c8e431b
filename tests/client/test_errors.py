"""The errors of refused requests, with the names and texts of Java's exceptions."""

import pytest

from pykafka_broker.client.errors import ClientError, KafkaError, TimedOut, Unusable, check, of_code
from pykafka_broker.protocol.errors import ErrorCode


def test_success_raises_nothing() -> None:
    check(ErrorCode.NONE, "never said")


def test_the_brokers_text_goes_before_that_of_the_code() -> None:
    with pytest.raises(KafkaError, match=r"^Topic 't' already exists\.$") as told:
        check(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
    assert told.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert told.value.java == "org.apache.kafka.common.errors.TopicExistsException: Topic 't' already exists."
    with pytest.raises(KafkaError, match="does not host this topic-partition"):
        check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_every_code_has_an_exception_and_a_text() -> None:
    for code in set(ErrorCode) - {ErrorCode.NONE}:
        name, text = of_code(code)
        assert name.isidentifier(), code
        assert text, code


def test_a_code_of_the_future_is_an_unknown_error() -> None:
    assert of_code(29_999) == of_code(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_each_kind_has_its_exception() -> None:
    assert [error("x").java for error in (ClientError, TimedOut, Unusable)] == [
        "org.apache.kafka.common.KafkaException: x",
        "org.apache.kafka.common.errors.TimeoutException: x",
        "org.apache.kafka.common.config.ConfigException: x",
    ]
