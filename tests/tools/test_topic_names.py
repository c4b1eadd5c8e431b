"""Topics named by a regular expression."""

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.topic_names import matcher


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
