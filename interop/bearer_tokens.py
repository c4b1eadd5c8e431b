"""Tokens for OAUTHBEARER and the keys that sign them, with a broker's settings for both kinds."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.security.sasl.bearer import encoded

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
# Kafka itself logs in with this line as well, so the line has to make a token.
LINE = f'{PACKAGE}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
VALIDATOR = PACKAGE + "OAuthBearerValidatorCallbackHandler"
UNSECURED_LOGIN = PACKAGE + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
ISSUER, AUDIENCE = "https://issuer.test", "kafka"
KEYS = {kid: rsa.generate_private_key(65537, 2048) for kid in ("one", "two", "unknown")}


def key_set(*kids: str) -> str:
    keys = [{**json.loads(RSAAlgorithm.to_jwk(KEYS[kid].public_key())), "kid": kid} for kid in kids]
    return json.dumps({"keys": keys})


def unsecured(lifetime_s: float = 60, **changed: Any) -> str:
    claims = {"sub": "alice", "iat": time.time() - 1, "exp": time.time() + lifetime_s, **changed}
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def signed(lifetime_s: int = 60, kid: str = "one", by: str = "", **changed: Any) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now - 200, "exp": now + lifetime_s, "aud": AUDIENCE, "iss": ISSUER, **changed}
    known = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(known, KEYS[by or kid], "RS256", headers={"kid": kid})


def settings(key_url: str) -> dict[str, str]:
    """Return the settings of a broker with one listener for each kind of tokens."""
    values = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    for name in ("unsecured", "signed"):
        values[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = LINE
    of_signed = {
        "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "oauthbearer.sasl.login.callback.handler.class": UNSECURED_LOGIN,
        "sasl.oauthbearer.jwks.endpoint.url": key_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    return values | {f"listener.name.signed.{key}": value for key, value in of_signed.items()}


LISTENERS = {"UNSECURED": "SASL_PLAINTEXT", "SIGNED": "SASL_PLAINTEXT"}


class KeySite:
    """An HTTP server of keys, which also makes tokens for the user `node`."""

    life_s = 60

    def __init__(self, content: str) -> None:
        site = self
        self.content, self.asked, self.open = content, 0, threading.Event()
        self.open.set()
        self.sold: list[tuple[str, str]] = []  # credentials and body of each question for a token

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked += 1
                site.open.wait(60)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(site.content.encode())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                site.sold.append((self.headers["Authorization"], body))
                self.send_response(200)
                self.end_headers()
                token = signed(site.life_s, sub="node")
                self.wfile.write(json.dumps({"access_token": token, "expires_in": site.life_s}).encode())

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
