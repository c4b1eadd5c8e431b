"""Every row of the table of rights, with all rights and without each: the client gets Kafka's answer."""

import json
from collections.abc import Iterator

import pytest

from interop.rights import CONFIG, RECORDED, open_up, played, rows
from interop.targets import start

TABLE = rows()


@pytest.fixture(scope="module")
def guarded(target_name: str) -> Iterator[str]:
    """The address of a broker where a stranger may do nothing."""
    with start(target_name, CONFIG) as target:
        open_up(target.bootstrap_servers)
        yield target.bootstrap_servers


def test_every_row_has_been_recorded() -> None:
    assert json.loads(RECORDED.read_text()).keys() == TABLE.keys()


@pytest.mark.parametrize("name", TABLE)
def test_who_lacks_a_right_is_told_what_kafka_tells(guarded: str, name: str) -> None:
    assert played(guarded, TABLE[name], f"r{[*TABLE].index(name)}-") == json.loads(RECORDED.read_text())[name]
