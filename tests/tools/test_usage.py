"""Which flags go together."""

import argparse
from typing import Any

import pytest

from pykafka_broker.tools.frame import Tool, UsageError
from pykafka_broker.tools.usage import given, never_with, one_of, only_with, required


def tool(**flags: Any) -> Tool:
    return Tool(argparse.Namespace(json=False, **flags))


def test_a_flag_is_given_with_any_value_even_nought() -> None:
    run = tool(partitions=0, topic=None, list=False, config=[], name="")
    assert [flag for flag in ("partitions", "topic", "list", "config", "name") if given(run, flag)] == [
        "partitions",
        "name",
    ]


def test_one_action_is_needed() -> None:
    assert one_of(tool(list=True, describe=False), "list", "describe") == "list"
    for both in (True, False):
        with pytest.raises(UsageError, match="exactly one action: --list or --describe"):
            one_of(tool(list=both, describe=both), "list", "describe")


def test_flags_that_need_or_exclude_each_other() -> None:
    run = tool(if_exists=True, create=True, delete=False, topic=None)
    assert one_of(run, "create", "delete") == "create"
    with pytest.raises(UsageError, match=r'"\[if-exists\]" can\'t be used with option "\[create\]"'):
        only_with(run, "if_exists", "delete")
    with pytest.raises(UsageError, match=r'"\[if-exists\]" can\'t be used with option "\[create\]"'):
        never_with(run, "if_exists", "delete", "create")
    with pytest.raises(UsageError, match=r'Missing required argument "\[topic\]"'):
        required(run, "create", "topic")
    only_with(run, "if_exists", "create", "delete")
    only_with(run, "topic", "delete")
