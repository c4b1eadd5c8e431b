"""Snippets of settings can be read, and name what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.properties import parse_properties
from tests.docs.blocks import ROOT, Block, blocks, name_of

ACTION = yaml.safe_load((ROOT / "packaging" / "github-action" / "action.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", blocks("yaml"), ids=name_of)
def test_a_snippet_of_yaml_asks_the_action_for_what_it_has(block: Block) -> None:
    for step in steps(yaml.safe_load(block.text)):
        if "/github-action" in step.get("uses", ""):
            assert step.get("with", {}).keys() <= ACTION["inputs"].keys()
    assert {*re.findall(r"steps\.kafka\.outputs\.([\w-]+)", block.text)} <= ACTION["outputs"].keys()


def steps(found: Any) -> Iterator[dict[str, Any]]:
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())


@pytest.mark.parametrize("block", blocks("properties"), ids=name_of)
def test_a_snippet_of_properties_names_keys_that_there_are(block: Block) -> None:
    settings = parse_properties(block.text)
    assert settings
    if not block.name.startswith("connect.md"):  # whose keys are Connect's
        assert BrokerConfig(settings).unknown == []


def test_a_key_that_is_none_would_be_noticed() -> None:
    assert [*BrokerConfig({"listner": "x"}).unknown] == ["listner"]
