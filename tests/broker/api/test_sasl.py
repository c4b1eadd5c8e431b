"""SASL on a listener that asks for none: the client learns what is wrong, and the connection goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.broker.api.real_broker import RealBroker


def test_nobody_is_authenticated_and_the_connection_goes_on(tmp_path: Path) -> None:
    node = RealBroker(tmp_path)
    for version in (0, 1):
        answer: Any = node.call(SaslHandshakeRequest("PLAIN"), version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    for version in range(3):
        answer = node.call(SaslAuthenticateRequest(b"\0user\0password"), version)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert "does not authenticate clients" in answer.error_message
    assert node.call(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
