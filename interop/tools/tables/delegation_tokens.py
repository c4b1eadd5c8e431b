"""kafka-delegation-tokens, of users who log in by PLAIN."""

import base64
import re

from interop.raw import RawClient
from interop.secured import plain
from interop.tools.steps import UNREACHABLE, Step
from pykafka_broker.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_MODULE} user_alice="alice-secret" user_bob="bob-secret";',
    "delegation.token.secret.key": "a secret that the test knows",
}
LISTENERS = {"SASL": "SASL_PLAINTEXT"}
_known: dict[str, str] = {}


def prepare(bootstrap: str) -> None:
    """A token of bob's, whose hash the steps are told."""
    with plain(RawClient(bootstrap), "bob", "bob-secret") as client:
        made = client.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert made.error_code == 0, made
    _known["hmac"] = base64.b64encode(bytes(made.hmac)).decode()


def _config(user: str) -> str:
    login = f'sasl.jaas.config={_MODULE} username="{user}" password="{user}-secret";'
    return f"--command-config '{{file:security.protocol=SASL_PLAINTEXT\\nsasl.mechanism=PLAIN\\n{login}}}'"


def _rows(out: str) -> str:
    return "\n".join(sorted(re.sub(r"[\w+/]{80,}=*", "HMAC", out).splitlines()))


def _calls(user: str, *commands: str) -> list[Step]:
    return [Step("delegation-tokens", f"{each} {_config(user)}", alike=_rows, known=_known) for each in commands]


STEPS: list[Step] = [
    *_calls(
        "alice",
        "--describe",
        "--create --max-life-time-period -1",
        "--create --max-life-time-period -1 --renewer-principal User:bob",
        "--create --max-life-time-period 60000 --renewer-principal User:bob --renewer-principal User:carol",
        "--create --max-life-time-period -1 --owner-principal User:bob",
        "--create --max-life-time-period -1 --owner-principal User:bob --renewer-principal User:alice",
        "--create",
        "--create --max-life-time-period x",
        "--create --max-life-time-period -1 --renewer-principal bob",
        "--create --max-life-time-period -1 --hmac x",
        "--create --max-life-time-period -1 --renew-time-period 1",
        "--create --max-life-time-period -1 --expiry-time-period 1",
    ),
    # a broker of Kafka's knows a new token a moment later, so what lists them comes behind these
    Step("delegation-tokens", "--describe"),
    Step("delegation-tokens", f"{UNREACHABLE} --describe"),
    Step("delegation-tokens", f"{UNREACHABLE} --create --max-life-time-period -1"),
    Step("delegation-tokens", f"{UNREACHABLE} --renew --hmac bm90IGE= --renew-time-period -1"),
    Step("delegation-tokens", f"{UNREACHABLE} --expire --hmac bm90IGE= --expiry-time-period -1"),
    *_calls(
        "bob",
        "--describe",
        "--renew --hmac {hmac} --renew-time-period -1",
        "--renew --hmac {hmac} --renew-time-period 3600000",
        "--renew --hmac bm90IGE= --renew-time-period -1",
        "--renew --hmac {hmac}",
        "--renew --renew-time-period -1",
        "--renew --hmac {hmac} --renew-time-period -1 --max-life-time-period 1",
        "--renew --hmac {hmac} --renew-time-period -1 --owner-principal User:bob",
        "--renew --hmac *** --renew-time-period -1",
    ),
    *_calls(
        "alice",
        "--describe",
        "--describe --owner-principal User:alice",
        "--describe --owner-principal User:bob",
        "--describe --owner-principal User:nobody",
        "--describe --owner-principal User:alice --owner-principal User:bob",
        "--describe --owner-principal bob",
        "--describe --hmac x",
        "--describe --renewer-principal User:bob",
        "--renew --hmac {hmac} --renew-time-period -1",
        "--expire --hmac {hmac} --expiry-time-period -1",
    ),
    *_calls(
        "bob",
        "--expire --hmac bm90IGE= --expiry-time-period -1",
        "--expire --hmac {hmac}",
        "--expire --hmac {hmac} --expiry-time-period 3600000",
        "--expire --hmac {hmac} --expiry-time-period -1",
        "--expire --hmac {hmac} --expiry-time-period -1",
        "--describe --owner-principal User:bob",
        "",
        "--create --describe",
        "--odd",
        "{nowhere} --describe",
    ),
]
STEPS += [
    Step("delegation-tokens", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    '--create --max-life-time-period x --command-config \'{file:security.protocol=SASL_PLAINTEXT\\nsasl.mechanism=PLAIN\\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";}\'',  # noqa: E501
    '--renew --hmac *** --renew-time-period -1 --command-config \'{file:security.protocol=SASL_PLAINTEXT\\nsasl.mechanism=PLAIN\\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="bob-secret";}\'',  # noqa: E501
    "{nowhere}",
}
