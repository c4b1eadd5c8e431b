"""AWS_MSK_IAM: which signed requests log a client in, as JSON and as tokens of OAUTHBEARER.

The signer here is written from AWS's documents apart from the broker's; interop/test_security_aws.py has Amazon's own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.aws_msk_iam import (
    AwsMskIam,
    AwsTokens,
    aws_msk_iam,
)
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused
from pykafka_broker.security.sasl.oauthbearer import oauthbearer
from tests.security.sasl.bearer import WALL, message
from tests.security.sasl.realms import NONCE, PREFIX, realm_of, settings_of

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG"
REGION = "eu-west-1"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
OPTIONS = {f"secret_{KEY}": SECRET, f"name_{KEY}": "arn:aws:iam::123456789012:user/alice", "region": REGION}
NAME = "arn:aws:iam::123456789012:user/alice"


def line(**changed: str) -> dict[str, str]:
    options = " ".join(f'{name}="{value}"' for name, value in (OPTIONS | changed).items() if value)
    return {PREFIX + f"{each}.sasl.jaas.config": f"{MODULE} {options};" for each in ("aws_msk_iam", "oauthbearer")}


def login(**changed: str) -> AwsMskIam:
    return aws_msk_iam(realm_of(line(**changed)))()


def fields(host: str = "localhost", secret: str = SECRET, **changed: str) -> dict[str, str]:
    """Return a client's message after the changes `changed`, with a good signature (`_` stands for `-`)."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(WALL // 1000 - 60))
    found = {
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{KEY}/{date[:8]}/{REGION}/kafka-cluster/aws4_request",
        "x-amz-date": date,
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
    } | {name.replace("_", "-"): value for name, value in changed.items()}
    names = {"action": "Action", "x-amz-signedheaders": "X-Amz-SignedHeaders"}
    pairs = sorted((names.get(each, each.title()), value) for each, value in found.items())
    query = urlencode(pairs, quote_via=quote, safe="-_.~")
    request = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = found["x-amz-credential"].partition("/")[2]
    text = f"AWS4-HMAC-SHA256\n{found['x-amz-date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    found["x-amz-signature"] = hmac.digest(key, text.encode(), "sha256").hex()
    return found | {"version": "2020_10_22", "host": host, "user-agent": "a client"}


def payload(**changed: str) -> bytes:
    return json.dumps(fields(**changed)).encode()


def token(**changed: str) -> str:
    found = fields(**{"host": f"kafka.{REGION}.amazonaws.com"} | changed)
    host = found.pop("host")
    del found["version"]
    found["User-Agent"] = found.pop("user-agent")
    names = {"action": "Action", "x-amz-signedheaders": "X-Amz-SignedHeaders", "User-Agent": "User-Agent"}
    query = urlencode({names.get(each, each.title()): value for each, value in found.items()})
    return base64.urlsafe_b64encode(f"https://{host}/?{query}".encode()).decode().rstrip("=")


def test_a_signed_request_makes_a_principal() -> None:
    done = login().step(payload(), WALL)
    assert type(done) is Done
    assert (done.principal, done.expires_ms) == (f"User:{NAME}", None)
    assert json.loads(done.token) == {"version": "2020_10_22", "request-id": NONCE}


def test_the_principal_is_the_access_key_where_no_name_is_given() -> None:
    assert login(**{f"name_{KEY}": ""}).step(payload(), WALL).principal == f"User:{KEY}"


def test_an_identity_may_need_a_session_token() -> None:
    temporary = login(**{f"session_token_{KEY}": "a+b/c="})
    temporary.step(payload(x_amz_security_token="a+b/c="), WALL)
    for sent in (payload(), payload(x_amz_security_token="other")):
        with pytest.raises(LoginRefused):
            temporary.step(sent, WALL)
    with pytest.raises(LoginRefused):
        login().step(payload(x_amz_security_token="a+b/c="), WALL)


DAY = time.strftime("%Y%m%d", time.gmtime(WALL // 1000))
BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "another secret": (lambda: payload(secret="other"), "its signature is wrong"),
    "no JSON": (lambda: b"\0alice\0secret", "no object of texts"),
    "no object": (lambda: b"[1]", "no object of texts"),
    "a number": (lambda: json.dumps(fields() | {"x-amz-expires": 900}).encode(), "no object of texts"),
    "a name twice": (lambda: payload()[:-1] + b', "host": "localhost"}', "no object of texts"),
    "very long": (lambda: payload(x_amz_security_token="a" * 70_000), "no object of texts"),
    "another version": (lambda: json.dumps(fields() | {"version": "2"}).encode(), "its version is not"),
    "a field more": (lambda: payload(x_amz_more="1"), "its fields are not"),
    "a field less": (lambda: json.dumps(_without("x-amz-date")).encode(), "its fields"),
    "not ASCII": (lambda: json.dumps(fields() | {"x-amz-security-token": "\ud800"}).encode(), "not ASCII"),
    "another action": (lambda: payload(action="kafka-cluster:DescribeCluster"), "its action is not"),
    "another algorithm": (lambda: payload(x_amz_algorithm="AWS4-ECDSA-P256-SHA256"), "not signed by"),
    "another header": (lambda: payload(x_amz_signedheaders="host;range"), "not signed by"),
    "another host": (lambda: payload(host="b-1.example.org"), "for the host 'b-1.example.org'"),
    "another service": (lambda: payload(x_amz_credential=f"{KEY}/{DAY}/{REGION}/s3/aws4_request"), "of the service"),
    "another region": (
        lambda: payload(x_amz_credential=f"{KEY}/{DAY}/us-east-1/kafka-cluster/aws4_request"),
        "of the region 'us-east-1'",
    ),
    "another day": (
        lambda: payload(x_amz_credential=f"{KEY}/20200101/{REGION}/kafka-cluster/aws4_request"),
        "of another day",
    ),
    "no scope": (lambda: payload(x_amz_credential=KEY), "of the service"),
    "a stranger": (
        lambda: payload(x_amz_credential=f"AKIAOTHER/{DAY}/{REGION}/kafka-cluster/aws4_request"),
        "its access key is unknown",
    ),
    "a long life": (lambda: payload(x_amz_expires="901"), "it lives for 901 s"),
    "no life": (lambda: payload(x_amz_expires="0"), "it lives for 0 s"),
    "a senseless life": (lambda: payload(x_amz_expires="-5"), "no time"),
    "a senseless date": (lambda: payload(x_amz_date=f"{DAY}T256060Z"), "no time"),
}


def _without(name: str) -> dict[str, Any]:
    found: dict[str, Any] = dict(fields())
    del found[name]
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_a_request_that_breaks_a_rule_is_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    sent, rule = BROKEN[name]
    with caplog.at_level(logging.INFO), pytest.raises(LoginRefused, match=rf"^\[{NONCE}\]: Access denied$"):
        login().step(sent(), WALL)
    assert rule in caplog.text
    assert SECRET not in caplog.text


def test_a_request_has_its_time() -> None:
    sent, signed_at = payload(), WALL - 60_000
    for good in (signed_at - 300_000, signed_at, signed_at + 899_999):
        login().step(sent, good)
    for bad in (signed_at - 300_001, signed_at + 900_000):
        with pytest.raises(LoginRefused):
            login().step(sent, bad)


def test_a_changed_field_breaks_the_signature() -> None:
    for name, value in (("x-amz-expires", "899"), ("host", "127.0.0.1")):
        with pytest.raises(LoginRefused):
            login().step(json.dumps(fields() | {name: value}).encode(), WALL)


def test_hosts_are_the_advertised_ones_or_those_of_the_option() -> None:
    advertised = realm_of(line() | {"advertised.listeners": "INSIDE://a.example:1,OUTSIDE://B.example:9098"})
    for host in ("b.example", "B.EXAMPLE", "localhost", "127.0.0.1"):
        aws_msk_iam(advertised)().step(payload(host=host), WALL)
    with pytest.raises(LoginRefused):
        aws_msk_iam(advertised)().step(payload(host="a.example"), WALL)
    named = login(hosts="c.example, d.example")
    named.step(payload(host="d.example"), WALL)
    with pytest.raises(LoginRefused):
        named.step(payload(), WALL)


def test_a_login_module_without_identities_ends_the_start() -> None:
    with pytest.raises(ConfigError, match="AWS_MSK_IAM has no option secret_ACCESSKEY"):
        login(**{f"secret_{KEY}": ""})


# -- tokens of OAUTHBEARER


def test_a_token_is_a_signed_address() -> None:
    done = oauthbearer(realm_of(line()))().step(message(token()), WALL)
    assert done == Done(b"", f"User:{NAME}", (WALL // 1000 - 60 + 900) * 1000)


@pytest.mark.parametrize(
    "bad",
    [
        "e30",
        "!",
        "a",
        token(secret="other"),
        token(host="kafka.us-east-1.amazonaws.com"),
        token(host="localhost"),
        base64.urlsafe_b64encode(b"http://[").decode(),
        base64.urlsafe_b64encode("https://é/?a=b".encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(base64.urlsafe_b64decode(token() + "==").replace(b"https", b"http")).decode(),
    ],
)
def test_a_bad_token_is_an_invalid_token(bad: str) -> None:
    with pytest.raises(InvalidToken):
        AwsTokens(settings_of(line())).shown(bad, WALL)
    assert type(oauthbearer(realm_of(line()))().step(message("x" + token(secret="other")), WALL)) is Challenge


# Made by aws-msk-iam-sasl-signer-go 1.0.4 of an identity that does not exist.
OF_GO = (
    "aHR0cHM6Ly9rYWZrYS5ldS13ZXN0LTEuYW1hem9uYXdzLmNvbS8_QWN0aW9uPWthZmthLWNsdXN0ZXIlM0FDb25uZWN0JlVzZXIt"
    "QWdlbnQ9YXdzLW1zay1pYW0tc2FzbC1zaWduZXItZ28lMkYxLjAuNCUyRmdvMS4yNi44JlgtQW16LUFsZ29yaXRobT1BV1M0LUhN"
    "QUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QUtJQUVYQU1QTEUlMkYyMDI2MTEyNyUyRmV1LXdlc3QtMSUyRmthZmthLWNsdXN0"
    "ZXIlMkZhd3M0X3JlcXVlc3QmWC1BbXotRGF0ZT0yMDI2MTEyN1QwMzUwMDhaJlgtQW16LUV4cGlyZXM9OTAwJlgtQW16LVNpZ25h"
    "dHVyZT03YzE3YTVlMWRlMDM3NGNkNWMxOGNmMjUxNDMzNzBiZWJjNzBjNmQxNDA0NjE2NGMzMmY0MDYxNWFiYjY0NDhhJlgtQW16"
    "LVNpZ25lZEhlYWRlcnM9aG9zdA"
)


def test_a_token_that_amazons_signer_for_go_has_made_is_good() -> None:
    line = f'{MODULE} secret_AKIAEXAMPLE="made-up" region="eu-west-1";'
    tokens = AwsTokens(settings_of({PREFIX + "oauthbearer.sasl.jaas.config": line}))
    signed_at = 1795751408000
    assert tokens.shown(OF_GO, signed_at) == ShownToken("AKIAEXAMPLE", signed_at + 900_000)
    with pytest.raises(InvalidToken, match="it has expired"):
        tokens.shown(OF_GO, signed_at + 900_000)
