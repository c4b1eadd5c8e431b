"""What all tools have in common, by the one that lists topics."""

import json

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main

NOBODY = "127.0.0.1:1"


def test_a_tool_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker() as broker:
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
        (["--bootstrap-server", NOBODY, "--lost"], "--lost"),
        (["--bootstrap-server", "nowhere", "--list"], "Invalid url in bootstrap.servers: nowhere"),
        (["--bootstrap-server", NOBODY, "--list", "--command-config", "/no/file"], "cannot read /no/file"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_1(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("topics", arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
