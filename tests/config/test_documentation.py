"""Every key is explained, in a sentence with its unit."""

from __future__ import annotations

import pytest

from pykafka_broker.config.documentation import documentation
from pykafka_broker.config.registry import ConfigKey, broker_keys, client_metrics_keys, group_keys, topic_keys

KEYS = {"broker": broker_keys, "topic": topic_keys, "group": group_keys, "client_metrics": client_metrics_keys}
UNITS = {
    ".ms": "millisecond",
    ".millis": "millisecond",
    ".secs": "second",
    ".seconds": "second",
    ".minutes": "minute",
    ".hours": "hour",
    ".bytes": "byte",
    ".percentage": "percent",
}


@pytest.mark.parametrize("scope", KEYS)
def test_every_key_has_one_and_nothing_else_has(scope: str) -> None:
    assert set(documentation(scope)) == set(KEYS[scope]())


@pytest.mark.parametrize("scope", KEYS)
def test_each_is_a_sentence_that_fits_a_line(scope: str) -> None:
    for name, says in documentation(scope).items():
        assert says[0].isupper() or says.startswith("https "), name
        assert says.endswith("."), name
        assert len(says) <= 180, name


@pytest.mark.parametrize(
    ("scope", "key"),
    [(scope, key) for scope, keys in KEYS.items() for key in keys().values() if key.type.name in ("INT", "LONG")],
    ids=lambda it: it if isinstance(it, str) else it.name,
)
def test_a_unit_is_named(scope: str, key: ConfigKey) -> None:
    for ending, unit in UNITS.items():
        if key.name.endswith(ending):
            assert unit in documentation(scope)[key.name].lower()
