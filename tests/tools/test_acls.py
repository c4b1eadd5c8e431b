"""`acls` as JSON, and that it asks before it removes."""

import io
import json
import signal
import subprocess
import sys

import pytest

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
MAY_READ = {
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission_type": "ALLOW",
}
ALICE = ["--topic", "orders", "--allow-principal", "User:alice", "--operation", "Read"]


def test_acls_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(SETTINGS, in_process=True) as broker:
        asked = Asked(broker, capsys)
        assert asked("acls", "--add", *ALICE) == [MAY_READ]
        assert asked("acls", "--add", *ALICE) == []
        assert asked("acls", "--list") == [MAY_READ]
        assert asked("acls", "--list", "--principal", "User:bob") == []
        assert asked("acls", "--remove", "--force", *ALICE) == [MAY_READ]
        assert asked("acls", "--list") == []


@pytest.mark.parametrize(("said", "left"), [("n\n", 1), ("", 1), ("yes\n", 1), ("\udcff\n", 1), ("y\n", 0), ("Y", 0)])
def test_nothing_is_removed_without_a_yes(
    said: str, left: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaBroker(SETTINGS, in_process=True) as broker:
        asked = Asked(broker, capsys)
        asked("acls", "--add", *ALICE)
        data = said.encode("utf-8", "surrogateescape")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        assert main("acls", ["--bootstrap-server", broker.bootstrap_servers, "--remove", "--topic", "orders"]) == 0
        assert "Are you sure you want to delete all ACLs" in capsys.readouterr().out
        assert len(asked("acls", "--list")) == left


def test_with_json_the_question_is_on_the_error_stream(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaBroker(SETTINGS, in_process=True) as broker:
        asked = Asked(broker, capsys)
        asked("acls", "--add", *ALICE)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"n\ny\n")))
        where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "other", "--topic", "orders"]
        assert main("acls", [*where, "--remove", "--json"]) == 0
        out, err = capsys.readouterr()
        assert (json.loads(out), err.count("Are you sure")) == ([MAY_READ], 2)


@pytest.mark.posix("Windows sends no SIGINT to another process")
def test_ctrl_c_ends_the_wait_for_an_answer() -> None:
    with KafkaBroker(SETTINGS, in_process=True) as broker:
        command = [sys.executable, "-m", "pykafka_broker", "acls", "--bootstrap-server", broker.bootstrap_servers]
        with subprocess.Popen(
            [*command, "--remove", "--topic", "orders"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as asking:
            assert asking.stdout is not None
            try:
                assert asking.stdout.readline().startswith(b"Are you sure")
                asking.send_signal(signal.SIGINT)
                assert asking.wait(60) == 130
            finally:
                asking.kill()


def test_a_broker_without_an_authorizer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        assert main("acls", ["--bootstrap-server", broker.bootstrap_servers, "--list"]) == 1
    assert capsys.readouterr().out == (
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: "
        "No Authorizer is configured on the broker\n"
    )
