"""`pykafka-broker trace` on a broker that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from pykafka_broker.cli.trace import main
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.testing import KafkaBroker
from tests.control.api.test_faults import Client


def test_what_clients_ask_is_printed_as_it_happens() -> None:
    with KafkaBroker(in_process=True) as broker:
        command = [sys.executable, "-m", "pykafka_broker", "trace", "--url", broker.control_url, "--client-id", "seen"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy()) as trace:
            try:
                seen, other = Client(broker, "seen"), Client(broker, "other")
                lines: list[str] = []
                for _ in range(100):  # until it looks, and then some
                    assert other.ask(ApiVersionsRequest("test", "1.0"), 3) is not None
                    assert seen.ask(ApiVersionsRequest("test", "1.0"), 3) is not None
                    time.sleep(0.05)
                seen.close()
                other.close()
                assert trace.stdout is not None
                lines = [trace.stdout.readline() for _ in range(3)]
            finally:
                trace.terminate()
        assert all(" ApiVersions v3 seen 127.0.0.1:" in line for line in lines)


@pytest.mark.parametrize(
    ("capture", "says"), [("no-such.pcap", "No such file or directory"), (__file__, "it is neither pcap nor pcapng")]
)
def test_a_capture_that_can_t_be_read_is_named(capsys: pytest.CaptureFixture[str], capture: str, says: str) -> None:
    assert main(["trace", capture]) == 1
    assert capsys.readouterr().err == f"pykafka-broker trace: {capture}: {says}\n"


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
