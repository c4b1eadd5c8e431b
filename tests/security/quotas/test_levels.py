"""Eight levels, the first that is set counts, and says whose use is counted together."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.security.quotas.levels import Limit, levels_of, quotas_of_addresses

KIND = "producer_byte_rate"


def entity(**names: str | None) -> QuotaEntity:
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in names.items()))


# In the order in which they count, and the name of the counter for alice with the client id app.
LEVELS: list[tuple[QuotaEntity, tuple[str, str]]] = [
    (entity(user="alice", client_id="app"), ("alice", "app")),
    (entity(user="alice", client_id=None), ("alice", "app")),
    (entity(user="alice"), ("alice", "")),
    (entity(user=None, client_id="app"), ("alice", "app")),
    (entity(user=None, client_id=None), ("alice", "app")),
    (entity(user=None), ("alice", "")),
    (entity(client_id="app"), ("", "app")),
    (entity(client_id=None), ("", "app")),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_first_that_is_set_counts(first: int) -> None:
    quotas = {level: {KIND: float(number)} for number, (level, _) in enumerate(LEVELS) if number >= first}
    assert levels_of(quotas)[KIND].find("alice", "app") == Limit(float(first), LEVELS[first][1])


def test_others_are_not_meant() -> None:
    quotas = {level: {KIND: 1.0} for level, _ in LEVELS if "alice" in dict(level).values()}
    assert levels_of(quotas)[KIND].find("bob", "app") is None


def test_a_client_without_an_id_has_the_default_of_client_ids() -> None:
    levels = levels_of({entity(client_id=None): {KIND: 5.0}, entity(client_id="app"): {KIND: 1.0}})[KIND]
    assert levels.find("alice", "") == Limit(5.0, ("", ""))


def test_a_kind_that_nobody_has_is_not_there() -> None:
    assert levels_of({entity(user="alice"): {KIND: 1.0}}).keys() == {KIND}


def test_addresses_stand_apart() -> None:
    quotas = {
        entity(ip="10.0.0.1"): {"connection_creation_rate": 5.0},
        entity(ip=None): {"connection_creation_rate": 1.0},
        entity(user="alice"): {KIND: 1.0},
    }
    assert quotas_of_addresses(quotas, "connection_creation_rate") == {"10.0.0.1": 5.0, None: 1.0}
    assert levels_of(quotas).keys() == {KIND}
