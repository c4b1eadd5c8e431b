"""Settings of clients, in the words of each client.

Rule: the settings are those that a client needs to reach the broker and to log in, and no others, so that a test adds
its own. Each family of clients has a function for its login.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pykafka_broker.testing.control_client import told_to_the_test

__tracebackhide__ = told_to_the_test

# -- addresses

_NAMES = {
    "confluent": "bootstrap.servers",
    "confluent-kafka": "bootstrap.servers",
    "librdkafka": "bootstrap.servers",
    "java": "bootstrap.servers",
    "kafka-python": "bootstrap_servers",
    "aiokafka": "bootstrap_servers",
    "spark": "kafka.bootstrap.servers",
}
_LIBRDKAFKA = frozenset({"confluent", "confluent-kafka", "librdkafka"})
_SINCE_2_10 = 0x020A0000  # the first librdkafka that has metadata.recovery.strategy


def client_settings(client: str, bootstrap_servers: str, login: ClientLogin | None = None) -> dict[str, Any]:
    """Return the settings of a client.

    Args:
        client: "confluent", "kafka-python", "aiokafka", "java" or "spark".
        bootstrap_servers: the addresses of the broker.
        login: None for a broker without security.

    Raises:
        ValueError: the client is unknown.
    """
    name = _NAMES.get(client)
    if name is None:
        raise ValueError(f"{client} is not known; it must be one of {', '.join(_NAMES)}, schema-registry")
    settings: dict[str, Any] = {name: bootstrap_servers}
    if client in _LIBRDKAFKA and _knows_recovery_strategy():
        settings["metadata.recovery.strategy"] = "none"
    return settings if login is None else settings | login_settings(client, login)


def _knows_recovery_strategy() -> bool:
    """Return whether confluent-kafka is installed with a librdkafka able to bootstrap again.

    Such a librdkafka gives up the only broker that it knows when the broker restarts. Then a transactional producer
    waits for that broker's answer for ever (librdkafka's issue 5511).
    """
    if find_spec("confluent_kafka") is None:
        return False
    from confluent_kafka import libversion

    return bool(libversion()[1] >= _SINCE_2_10)


# -- logins


PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
_MODULES = "org.apache.kafka.common.security."
_LOGIN_MODULES = {
    PLAIN: f"{_MODULES}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}scram.ScramLoginModule",
    OAUTHBEARER: f"{_MODULES}oauthbearer.OAuthBearerLoginModule",
}
_TOKEN_LIFE_S = 3600


class ClientLogin(NamedTuple):
    """A client's login. `authority` and `identity` are files."""

    protocol: str
    authority: Path | None
    identity: Path | None
    mechanism: str | None
    user: str
    password: str

    def __repr__(self) -> str:
        return f"<Client {self.user} by {self.mechanism or self.protocol}>"


def login_settings(client: str, login: ClientLogin) -> dict[str, Any]:
    """Return the settings of a client for a login."""
    families = {"java": _java, "spark": _spark, "kafka-python": _kafka_python, "aiokafka": _aiokafka}
    return families.get(client, _librdkafka)(login)


def jaas_line(mechanism: str, options: Mapping[str, str]) -> str:
    """Return a line for `sasl.jaas.config`, of a broker or a client."""
    told = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return f"{_LOGIN_MODULES[mechanism]} required{told};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _java(login: ClientLogin) -> dict[str, Any]:
    settings = {"security.protocol": login.protocol}
    if login.authority is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.authority)}
    if login.identity is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(login.identity)}
    if login.mechanism is not None:
        options = {"username": login.user, "password": login.password}
        if login.mechanism == OAUTHBEARER:
            options = {"unsecuredLoginStringClaim_sub": login.user}
        settings |= {"sasl.mechanism": login.mechanism, "sasl.jaas.config": jaas_line(login.mechanism, options)}
    return settings


def _spark(login: ClientLogin) -> dict[str, Any]:
    return {f"kafka.{key}": value for key, value in _java(login).items()}


def _librdkafka(login: ClientLogin) -> dict[str, Any]:
    # Lower case: librdkafka lowers letters by the locale, and a Turkish I becomes an unknown letter.
    settings: dict[str, Any] = {"security.protocol": login.protocol.lower()}
    if login.authority is not None:
        settings["ssl.ca.location"] = str(login.authority)
    if login.identity is not None:
        settings |= {"ssl.certificate.location": str(login.identity), "ssl.key.location": str(login.identity)}
    if login.mechanism == OAUTHBEARER:
        settings |= {
            "sasl.mechanism": login.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={login.user}",
        }
    elif login.mechanism is not None:
        settings |= {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.password}
    return settings


def _python(login: ClientLogin) -> dict[str, Any]:
    """Return the common settings of kafka-python and aiokafka."""
    settings: dict[str, Any] = {"security_protocol": login.protocol}
    if login.mechanism is not None:
        settings["sasl_mechanism"] = login.mechanism
        if login.mechanism != OAUTHBEARER:
            settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return settings


def _kafka_python(login: ClientLogin) -> dict[str, Any]:
    settings = _python(login)
    if login.authority is not None:
        settings["ssl_cafile"] = str(login.authority)
    if login.identity is not None:
        settings |= {"ssl_certfile": str(login.identity), "ssl_keyfile": str(login.identity)}
    if login.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_of_kafka_python(login.user)
    return settings


def _aiokafka(login: ClientLogin) -> dict[str, Any]:
    settings = _python(login)
    if login.authority is not None:
        import ssl

        context = settings["ssl_context"] = ssl.create_default_context(cafile=login.authority)
        if login.identity is not None:
            context.load_cert_chain(login.identity)
    if login.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = _token_of_aiokafka(login.user)
    return settings


def unsecured_token(user: str) -> str:
    """Return an unsigned token, as accepted by Kafka's default validator."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + _TOKEN_LIFE_S})
    header, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{header}.{claims}."


def _token_of_kafka_python(user: str) -> Any:
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # before 3.0
        from kafka.sasl.oauth import AbstractTokenProvider

    class SyncTokens(AbstractTokenProvider):  # type: ignore[misc]  # the base has no types
        def token(self) -> str:
            return unsecured_token(user)

    return SyncTokens()


def _token_of_aiokafka(user: str) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class AsyncTokens(AbstractTokenProvider):  # type: ignore[misc]  # the base has no types
        async def token(self) -> str:
            return unsecured_token(user)

    return AsyncTokens()
