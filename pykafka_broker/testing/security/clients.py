"""How each client is told of TLS and SASL.

Rule: one function for each family of clients; files are PEM for all of them, the user's key and certificate in one.
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from pykafka_broker.testing.security.wish import OAUTHBEARER, Security, identity_file, jaas_line

_TOKEN_LIFE_S = 3600


class Client(NamedTuple):
    """Who wants to log in, and how. `authority` and `identity` are files."""

    protocol: str
    authority: Path | None
    identity: Path | None
    mechanism: str | None
    user: str
    password: str

    def __repr__(self) -> str:
        return f"<Client {self.user} by {self.mechanism or self.protocol}>"


def settings_of(
    client: str, security: Security, folder: Path, user: str | None, mechanism: str | None
) -> dict[str, Any]:
    """What is added to the address. Raises ValueError for a user or a mechanism that the broker does not have."""
    name = security.user(user)
    if mechanism is not None and not security.has_sasl:
        security.mechanism(mechanism)
    with_certificate = security.client_auth != "none" and name is not None
    it = Client(
        security.listener,
        folder / "ca.pem" if security.has_tls else None,
        identity_file(folder, name) if with_certificate and name is not None else None,
        security.mechanism(mechanism) if security.has_sasl else None,
        name or "",
        "" if name is None else security.passwords[name],
    )
    if client == "java":
        return _java(it)
    if client == "spark":
        return {f"kafka.{key}": value for key, value in _java(it).items()}
    if client == "kafka-python":
        return _kafka_python(it)
    if client == "aiokafka":
        return _aiokafka(it)
    return _librdkafka(it)


def _java(it: Client) -> dict[str, Any]:
    settings = {"security.protocol": it.protocol}
    if it.authority is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(it.authority)}
    if it.identity is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(it.identity)}
    if it.mechanism is not None:
        options = {"username": it.user, "password": it.password}
        if it.mechanism == OAUTHBEARER:
            options = {"unsecuredLoginStringClaim_sub": it.user}
        settings |= {"sasl.mechanism": it.mechanism, "sasl.jaas.config": jaas_line(it.mechanism, options)}
    return settings


def _librdkafka(it: Client) -> dict[str, Any]:
    # Small letters: librdkafka makes capital ones small by the locale, and a Turkish I becomes none of its letters.
    settings: dict[str, Any] = {"security.protocol": it.protocol.lower()}
    if it.authority is not None:
        settings["ssl.ca.location"] = str(it.authority)
    if it.identity is not None:
        settings |= {"ssl.certificate.location": str(it.identity), "ssl.key.location": str(it.identity)}
    if it.mechanism == OAUTHBEARER:
        settings |= {
            "sasl.mechanism": it.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={it.user}",
        }
    elif it.mechanism is not None:
        settings |= {"sasl.mechanism": it.mechanism, "sasl.username": it.user, "sasl.password": it.password}
    return settings


def _python(it: Client) -> dict[str, Any]:
    """What kafka-python and aiokafka have in common."""
    settings: dict[str, Any] = {"security_protocol": it.protocol}
    if it.mechanism is not None:
        settings["sasl_mechanism"] = it.mechanism
        if it.mechanism != OAUTHBEARER:
            settings |= {"sasl_plain_username": it.user, "sasl_plain_password": it.password}
    return settings


def _kafka_python(it: Client) -> dict[str, Any]:
    settings = _python(it)
    if it.authority is not None:
        settings["ssl_cafile"] = str(it.authority)
    if it.identity is not None:
        settings |= {"ssl_certfile": str(it.identity), "ssl_keyfile": str(it.identity)}
    if it.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_of_kafka_python(it.user)
    return settings


def _aiokafka(it: Client) -> dict[str, Any]:
    settings = _python(it)
    if it.authority is not None:
        import ssl

        context = settings["ssl_context"] = ssl.create_default_context(cafile=it.authority)
        if it.identity is not None:
            context.load_cert_chain(it.identity)
    if it.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_of_aiokafka(it.user)
    return settings


def unsecured_token(user: str) -> str:
    """A token that nobody has signed, as Kafka's default validator takes it."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + _TOKEN_LIFE_S})
    header, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{header}.{claims}."


def _token_of_kafka_python(user: str) -> Any:
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # before 3.0
        from kafka.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return unsecured_token(user)

    return Tokens()


def _token_of_aiokafka(user: str) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return unsecured_token(user)

    return Tokens()
