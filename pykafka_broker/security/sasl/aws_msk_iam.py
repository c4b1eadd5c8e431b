"""AWS_MSK_IAM: logins by a request that AWS's Signature Version 4 signs, as Amazon MSK takes them.

Rule: AWS is never asked. The identities are made up and stand in the listener's login module: `secret_KEY="..."` for
each access key, with `name_KEY` (the principal's name, KEY by default) and `session_token_KEY` where they are wanted.
A client signs a request for `kafka-cluster:Connect`, which it never sends: signature, scope, age and host are checked.
The client is told "Access denied"; the log says which rule the request breaks, and nothing of the secret.

The request comes in one of two forms. The mechanism AWS_MSK_IAM has it as JSON, signed for the broker's host. The
tokens of OAUTHBEARER that Amazon's signers for other languages make are its URL in base64, signed for the region's
endpoint; they are taken where the login module of OAUTHBEARER is the one of this mechanism.

Sources: the README of aws-msk-iam-auth ("Details", "Authentication payload"), and AWS's documentation of Signature
Version 4 ("Create a signed AWS API request").
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken, json_of
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused, Realm

AWS_MSK_IAM = "AWS_MSK_IAM"

_VERSION = "2020_10_22"
_ACTION = "kafka-cluster:Connect"
_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE, _TERMINATOR = "kafka-cluster", "aws4_request"
_SIGNED = "x-amz-"
_TOKEN = "x-amz-security-token"
_NEEDED = {"action", *(_SIGNED + name for name in ("algorithm", "credential", "date", "expires", "signedheaders"))}
_NAMES = {  # of the parameters in a URL, by those in the JSON
    "action": "Action",
    _TOKEN: "X-Amz-Security-Token",
    **{f"x-amz-{name.lower()}": f"X-Amz-{name}" for name in ("Algorithm", "Credential", "Date", "Expires")},
    "x-amz-signedheaders": "X-Amz-SignedHeaders",
}
_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_EXPIRES = re.compile(r"\d{1,6}", re.ASCII)
_LONGEST_S = 900  # of a request's life, as MSK has it
_SKEW_MS = 5 * 60_000  # that clocks may differ, as AWS has it
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MOST_BYTES = 1 << 16
_EMPTY_DIGEST = hashlib.sha256(b"").hexdigest()

log = logging.getLogger(__name__)


class AwsIdentity(NamedTuple):
    """A made-up identity. session_token: empty for an identity that lasts."""

    secret: str
    session_token: str
    name: str


class SignedConnect(NamedTuple):
    """A signed request to connect. parameters: what is signed, by lower-case names; signature: in hexadecimal."""

    host: str
    parameters: Mapping[str, str]
    signature: str


class AwsIdentities:
    """The identities of a listener's login module, and the check of requests that they sign.

    Raises ConfigError for options that make no sense.
    """

    def __init__(self, settings: ListenerSettings, mechanism: str) -> None:
        options = login_module(settings, mechanism).options
        self._region = options.get("region")
        self._identities = {
            key.removeprefix("secret_"): AwsIdentity(
                secret,
                options.get(f"session_token_{key.removeprefix('secret_')}", ""),
                options.get(f"name_{key.removeprefix('secret_')}") or key.removeprefix("secret_"),
            )
            for key, secret in options.items()
            if key.startswith("secret_")
        }
        if not self._identities:
            raise ConfigError(
                f"listener {settings.name}: the login module for {mechanism} has no option secret_ACCESSKEY"
            )

    def checked(self, request: SignedConnect, is_host: Callable[[str, str], bool], wall: int) -> ShownToken:
        """Return who has signed a request, and when it expires. Raises InvalidToken.

        is_host: whether a host may be signed for, given the host and the region.
        """
        parameters = request.parameters
        if parameters["action"] != _ACTION:
            raise InvalidToken(f"its action is not {_ACTION}")
        if parameters["x-amz-algorithm"] != _ALGORITHM or parameters["x-amz-signedheaders"] != "host":
            raise InvalidToken(f"it is not signed by {_ALGORITHM} with the header host alone")
        access_key, region, scope = self._scope(parameters)
        if not is_host(request.host, region):
            raise InvalidToken(f"it is signed for the host {request.host[:255]!r}")
        identity = self._identities.get(access_key)
        if identity is None:
            raise InvalidToken("its access key is unknown")
        if not hmac.compare_digest(identity.session_token.encode(), parameters.get(_TOKEN, "").encode()):
            raise InvalidToken("its session token is not the one of its access key")
        expected = signature_of(request, identity.secret, scope)
        if not hmac.compare_digest(expected.encode(), request.signature.encode()):
            raise InvalidToken("its signature is wrong")
        return ShownToken(identity.name, _checked_age(parameters, wall))

    def _scope(self, parameters: Mapping[str, str]) -> tuple[str, str, str]:
        """Return access key, region and scope of a request's credential."""
        access_key, *scope = parameters["x-amz-credential"].split("/")
        if len(scope) != 4 or scope[2:] != [_SERVICE, _TERMINATOR]:
            raise InvalidToken(f"its credential is not of the service {_SERVICE}")
        if scope[0] != parameters["x-amz-date"][:8]:
            raise InvalidToken("its credential is of another day than its date")
        if self._region not in (None, scope[1]):
            raise InvalidToken(f"its credential is of the region {scope[1][:40]!r}")
        return access_key, scope[1], "/".join(scope)


def _checked_age(parameters: Mapping[str, str], wall: int) -> int:
    """Return when a request expires, in epoch milliseconds."""
    date, expires = parameters["x-amz-date"], parameters["x-amz-expires"]
    if _DATE.fullmatch(date) is None or _EXPIRES.fullmatch(expires) is None:
        raise InvalidToken("its date or its life is no time")
    if not 0 < int(expires) <= _LONGEST_S:
        raise InvalidToken(f"it lives for {int(expires)} s, and {_LONGEST_S} is the most")
    try:
        signed_at = int(datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise InvalidToken("its date or its life is no time") from None
    if signed_at > wall + _SKEW_MS:
        raise InvalidToken("it is signed in the future")
    if signed_at + int(expires) * 1000 <= wall:
        raise InvalidToken("it has expired")
    return signed_at + int(expires) * 1000


def signature_of(request: SignedConnect, secret: str, scope: str) -> str:
    """Return the signature that a request has to have, in hexadecimal. scope: date, region, service, terminator."""
    pairs = sorted((_NAMES[name], quote(value, safe="-_.~")) for name, value in request.parameters.items())
    query = "&".join(f"{name}={value}" for name, value in pairs)
    canonical = "\n".join(("GET", "/", query, f"host:{request.host}", "", "host", _EMPTY_DIGEST))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join((_ALGORITHM, request.parameters["x-amz-date"], scope, digest))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _request(host: str, fields: dict[str, str]) -> SignedConnect:
    signature = fields.pop("x-amz-signature", "")
    if not _NEEDED <= fields.keys() <= _NAMES.keys():
        raise InvalidToken("its fields are not those of a signed request")
    if not all(each.isascii() for each in (host, signature, *fields.values())):
        raise InvalidToken("a field of it is not ASCII")
    return SignedConnect(host, fields, signature)


# -- the mechanism


def aws_msk_iam(realm: Realm) -> Callable[[], AwsMskIam]:
    """Return the maker of logins on a listener. Raises ConfigError."""
    identities = AwsIdentities(realm.settings, AWS_MSK_IAM)
    options = login_module(realm.settings, AWS_MSK_IAM).options
    hosts = {each.strip().lower() for each in options.get("hosts", "").split(",") if each.strip()}
    return partial(AwsMskIam, identities, hosts or {*realm.settings.advertised_hosts, *_LOOPBACK}, realm)


class AwsMskIam:
    """A client's login."""

    def __init__(self, identities: AwsIdentities, hosts: set[str], realm: Realm) -> None:
        self._identities = identities
        self._hosts = hosts
        self._realm = realm

    def step(self, token: bytes, wall: int) -> Done:
        request_id = self._realm.around.new_nonce()
        try:
            shown = self._identities.checked(_request_in(token), self._is_host, wall)
        except InvalidToken as error:
            log.info("Listener %s: a signed request is not taken: %s", self._realm.settings.name, error)
            raise LoginRefused(f"[{request_id}]: Access denied") from None
        answer = {"version": _VERSION, "request-id": request_id}
        return Done(json.dumps(answer).encode(), f"User:{shown.name}")

    def _is_host(self, host: str, region: str) -> bool:
        return host.lower() in self._hosts


def _request_in(token: bytes) -> SignedConnect:
    """Return the request in a client's message."""
    try:
        fields = json_of(token) if len(token) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or not all(isinstance(each, str) for each in fields.values()):
        raise InvalidToken("it is no object of texts")
    if fields.pop("version", None) != _VERSION:
        raise InvalidToken(f"its version is not {_VERSION}")
    fields.pop("user-agent", None)
    return _request(fields.pop("host", ""), fields)


# -- tokens of OAUTHBEARER


class AwsTokens:
    """A check of tokens that are signed requests. Raises ConfigError."""

    def __init__(self, settings: ListenerSettings) -> None:
        self._identities = AwsIdentities(settings, "OAUTHBEARER")

    def shown(self, token: str, wall: int) -> ShownToken:
        """Return the content of a good token. Raises InvalidToken."""
        try:
            url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii"))
            fields = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=True))
        except (binascii.Error, ValueError):
            raise InvalidToken("it is no address in base64") from None
        if url.scheme != "https" or url.path not in ("", "/"):
            raise InvalidToken("it is not the address of an endpoint")
        fields.pop("User-Agent", None)  # is added to what is signed already
        return self._identities.checked(
            _request(url.netloc, {name.lower(): value for name, value in fields.items()}), _is_endpoint, wall
        )


def _is_endpoint(host: str, region: str) -> bool:
    return host in (f"kafka.{region}.amazonaws.com", f"kafka.{region}.amazonaws.com.cn")
