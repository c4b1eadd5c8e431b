"""The options and errors that all tools share, tested with a tool that lists topics."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.client.errors import ClientError
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import (
    SERVER_VARIABLE,
    Tool,
    ToolUsageError,
    main,
    matcher,
    subscribed,
)

NOBODY = "127.0.0.1:1"


def test_the_address_may_stand_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        monkeypatch.setenv(SERVER_VARIABLE, broker.bootstrap_servers)
        assert main("topics", ["--list"]) == 0
        assert capsys.readouterr().out == "orders\n"
    arguments = ["--bootstrap-server", "nowhere", "--list"]
    assert main("topics", arguments) == 1, "what is given wins"
    capsys.readouterr()
    monkeypatch.setenv(SERVER_VARIABLE, "")
    assert main("topics", ["--list"]) == 1
    assert "--bootstrap-server must be specified" in capsys.readouterr().err, "an empty variable names nothing"


def test_a_flag_behind_the_command_is_told_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("transactions", ["list", "--bootstrap-server", NOBODY]) == 1
    assert capsys.readouterr().err.endswith("; --bootstrap-server stands before the command\n")


def test_a_tool_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        for name in ("orders", "items"):
            broker.create_topic(name)
        assert main("topics", ["--bootstrap-server", broker.bootstrap_servers, "--list"]) == 0
        assert capsys.readouterr() == ("items\norders\n", "")
        assert main("topics", [f"--bootstrap-server={broker.bootstrap_servers}", "--list", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == ["items", "orders"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--list"], "--bootstrap-server must be specified"),
        (["--bootstrap-server", NOBODY, "--lost"], "lost is not a recognized option"),
        (["--bootstrap-server", "nowhere", "--list"], "Invalid url in bootstrap.servers: nowhere"),
        (["--bootstrap-server", NOBODY, "--lis"], "lis is not a recognized option"),
        (["--bootstrap-server", "no.such.host.invalid:9092", "--list"], "No resolvable bootstrap urls given"),
        (["--bootstrap-server", NOBODY, "--list", "--command-config", "/no/file"], "cannot read /no/file"),
    ],
)
def test_wrong_use_is_told_on_standard_error_and_exit_code_1(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("topics", arguments) == 1
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") <= 2


def test_a_failure_is_told_on_both_streams_as_kafkas_script_does(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        where = ["--bootstrap-server", broker.bootstrap_servers]
        assert main("topics", [*where, "--describe", "--topic", "nothing"]) == 1
        text = "Topic 'nothing' does not exist as expected\n"
        assert capsys.readouterr() == (f"Error while executing topic command : {text}", text)
        broker.create_topic("orders")
        assert main("topics", [*where, "--create", "--topic", "orders"]) == 1
        err = capsys.readouterr().err
        assert err == "org.apache.kafka.common.errors.TopicExistsException: Topic 'orders' already exists.\n"
        assert main("topics", [*where, "--create", "--topic", "orders", "--json"]) == 1
        assert capsys.readouterr().out == ""


def test_an_address_without_a_broker_is_told_at_once_and_not_only_at_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=300\n")
    for _ in range(2):  # and once in each run
        assert main("topics", ["--bootstrap-server", NOBODY, "--command-config", str(config), "--list"]) == 1
        first, *rest = capsys.readouterr().err.splitlines()
        assert first.startswith(f"no connection to {NOBODY}: ")
        assert "; trying again for" in first
        assert len(rest) == 1  # the error at the end


def test_a_value_that_kafkas_script_reads_late_is_told_as_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("topics", ["--bootstrap-server", NOBODY, "--create", "--topic", "t", "--partitions", "1_0"]) == 1
    text = "Cannot parse argument '1_0' of option partitions\n"
    out, err = capsys.readouterr()
    assert (out, err.startswith(text)) == (f"Error while executing topic command : {text}", True)
    assert main("console-consumer", ["--bootstrap-server", NOBODY, "--topic", "t", "--max-messages", "x"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.partition("\n")[0]) == ("", "Cannot parse argument 'x' of option max-messages")


_LATENCY = "end-to-end-latency --topic a --producer-acks 1 --record-size 5 --num-records"


@pytest.mark.parametrize(
    "words",
    [
        f"{_LATENCY} --5",
        f"{_LATENCY} 99999999999999999999",
        *(f"{_LATENCY} 1 --{flag} abc" for flag in ("record-key-size", "num-headers", "record-header-size")),
        f"{_LATENCY} 1 --record-header-key-size -1",
        "producer-perf-test --topic a --throughput -1 --num-records 1 --record-size 99999999999999999999",
        "verifiable-producer --topic a --message-create-time 99999999999999999999",
    ],
)
def test_a_value_that_makes_no_sense_is_told_in_a_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    tool, *flags = words.split()
    assert main(tool, ["--bootstrap-server", "127.0.0.1:1", *flags]) == 1
    assert capsys.readouterr().err.count("\n") == 2  # and where the flags are listed


@pytest.mark.parametrize(("tool", "status"), [("console-consumer", 0), ("topics --create", 1)])
def test_a_name_that_no_request_can_have_is_an_invalid_name(
    tool: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *flags = tool.split()
    with KafkaBroker(in_process=True) as broker:
        for topic, says in (("\udcff", "can't encode"), ("bad/name", "bad/name")):
            where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", topic]
            assert main(name, [*flags, *where]) == status
            assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags", ["-list -topic orders", "--list=true --topic=orders", "--list --topic orders -- --odd"]
)
def test_flags_in_the_forms_that_most_scripts_take(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        assert main("topics", ["-bootstrap-server", broker.bootstrap_servers, *flags.split()]) == 0
        assert capsys.readouterr() == ("orders\n", "")


def test_some_scripts_take_flags_that_are_shortened_or_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        where = ["--bootstrap-s", NOBODY, "--bootstrap-server", broker.bootstrap_servers]
        assert main("features", [*where, "describe"]) == 0
        assert "metadata.version" in capsys.readouterr().out
        assert main("features", [*where, "desc"]) == 0
        assert "metadata.version" in capsys.readouterr().out
        assert main("features", [*where, "d"]) == 1
        assert "ambiguous command: d could match" in capsys.readouterr().err
        assert main("features", [*where, "-describe"]) == 1


def tool(**flags: Any) -> Tool:
    return Tool(argparse.Namespace(json=False, **flags))


def test_a_flag_is_given_with_any_value_even_nought() -> None:
    run = tool(partitions=0, topic=None, list=False, config=[], name="")
    assert [flag for flag in ("partitions", "topic", "list", "config", "name") if run.given(flag)] == [
        "partitions",
        "name",
    ]


def test_one_action_is_needed() -> None:
    assert tool(list=True, describe=False).one_of("list", "describe") == "list"
    for both in (True, False):
        with pytest.raises(ToolUsageError, match="exactly one action: --list or --describe"):
            tool(list=both, describe=both).one_of("list", "describe")


def test_flags_that_need_or_exclude_each_other() -> None:
    run = tool(if_exists=True, create=True, delete=False, topic=None)
    assert run.one_of("create", "delete") == "create"
    with pytest.raises(ToolUsageError, match=r'"\[if-exists\]" can\'t be used with option "\[create\]"'):
        run.only_with("if_exists", "delete")
    with pytest.raises(ToolUsageError, match=r'"\[if-exists\]" can\'t be used with option "\[create\]"'):
        run.never_with("if_exists", "delete", "create")
    with pytest.raises(ToolUsageError, match=r'Missing required argument "\[topic\]"'):
        run.required("create", "topic")
    run.only_with("if_exists", "create", "delete")
    run.only_with("topic", "delete")


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
