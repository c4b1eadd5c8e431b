"""Topics named by a regular expression."""

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.topic_names import matcher, subscribed


@pytest.mark.parametrize(
    ("pattern", "meant", "other"),
    [
        ("orders", "orders", "orders-2"),
        ("orders.*", "orders-2", "my-orders"),
        ("a, b", "b", "a, b"),
        ("'a|b'", "a", "ab"),
        ("a.b", "axb", "ab"),
    ],
)
def test_the_whole_name_has_to_match(pattern: str, meant: str, other: str) -> None:
    matches = matcher(pattern)
    assert matches(meant)
    assert not matches(other)


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(ClientError, match=r"^\[ is an invalid regex\.$"):
        matcher("[")


def test_a_regular_expression_that_is_none_is_told() -> None:
    assert [name for name in ("a", "ab", "b") if subscribed("a.?")(name)] == ["a", "ab"]
    with pytest.raises(ClientError, match="is an invalid regex"):
        subscribed("[")
