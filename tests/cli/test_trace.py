"""`pykafka-broker trace` on a broker that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pykafka_broker.cli.trace import main
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.testing import KafkaBroker
from tests.control.api.test_faults import Client


def test_what_clients_ask_is_printed_as_it_happens() -> None:
    with KafkaBroker(in_process=True) as broker:
        command = [sys.executable, "-m", "pykafka_broker", "trace", "--url", broker.control_url, "--client-id", "seen"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as trace:
            seen, other, over = Client(broker, "seen"), Client(broker, "other"), threading.Event()

            def ask() -> None:
                while not over.wait(0.05):
                    for client in (other, seen):
                        client.ask(ApiVersionsRequest("test", "1.0"), 3)

            asking = threading.Thread(target=ask)  # until it looks, and then some
            asking.start()
            try:
                assert trace.stdout is not None
                lines = [trace.stdout.readline() for _ in range(3)]
            finally:
                over.set()
                asking.join()
                trace.terminate()
                seen.close()
                other.close()
        assert all(" ApiVersions v3 seen 127.0.0.1:" in line for line in lines)


@pytest.mark.parametrize(
    ("capture", "says"), [("no-such.pcap", "No such file or directory"), (__file__, "it is neither pcap nor pcapng")]
)
def test_a_capture_that_can_t_be_read_is_named(capsys: pytest.CaptureFixture[str], capture: str, says: str) -> None:
    assert main(["trace", capture]) == 1
    assert capsys.readouterr().err == f"pykafka-broker trace: {capture}: {says}\n"


def test_files_of_other_content_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sent, other = tmp_path / "sent.bin", tmp_path / "other.bin"
    request = bytes.fromhex("00120000000000010000")  # ApiVersions v0, correlation id 1, an empty client id
    sent.write_bytes(len(request).to_bytes(4, "big") + request)
    for content in (b"", b"a text, which is no request", b"\0\0\0\4\0\0\0\1"):
        other.write_bytes(content)
        assert main(["trace", "--requests", str(other)]) == 1
        reason = f"{other}: it does not begin with a request of a Kafka client"
        assert capsys.readouterr().err == f"pykafka-broker trace: {reason}\n"
    other.write_bytes(b"a text, which is no answer")
    assert main(["trace", "--requests", str(sent), "--responses", str(other)]) == 1
    assert capsys.readouterr().err == f"pykafka-broker trace: {other}: it answers none of the requests\n"
    other.write_bytes(b"")
    assert main(["trace", "--requests", str(sent), "--responses", str(other)]) == 0
    assert "ApiVersions v0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--responses", "came.bin"], "--responses FILE needs --requests FILE"),
        (["seen.pcap", "--requests", "sent.bin"], "only one of them can be traced: a capture, --requests"),
        (["seen.pcap", "--url", "http://127.0.0.1:1"], "only one of them can be traced: a capture, --url"),
    ],
)
def test_an_option_that_would_not_be_used_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    with pytest.raises(SystemExit):
        main(["trace", *options])
    assert says in capsys.readouterr().err
