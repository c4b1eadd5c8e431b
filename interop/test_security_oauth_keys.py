"""The keys that sign tokens of OAUTHBEARER: changed, invalid, slow to come or missing. No token is in the log."""

import time
from pathlib import Path

import pytest

from interop.bearer_tokens import LISTENERS, KeySite, key_set, settings, signed, unsecured
from interop.raw import RawClient, framed
from interop.secured import NotAuthenticated, Secured, bearer, secured
from interop.waiting import eventually
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only


def test_a_new_key_is_found_when_a_token_names_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set("one"))
    with secured("pykafka", LISTENERS, settings(path.as_uri())) as broker:
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))
        path.write_text("garbage")
        time.sleep(1.1)
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))
        with broker.connect("SIGNED") as client:
            bearer(client, signed())  # signed with the keys from before
        path.write_text(key_set("two"))
        time.sleep(1.1)
        with broker.connect("SIGNED") as client:
            bearer(client, signed(kid="two"))
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed())


def test_keys_that_can_not_be_read_end_the_start(tmp_path: Path) -> None:
    for url in ((tmp_path / "nowhere").as_uri(), "http://127.0.0.1:1/keys"):
        broker = KafkaBroker({"listeners": "SIGNED://127.0.0.1:0", **_alone(url)})
        with pytest.raises(Exception, match=r"jwks\.endpoint\.url of listener SIGNED"):
            broker.start()


def _alone(url: str) -> dict[str, str]:
    return {"listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT", **settings(url)}


def test_no_token_is_in_the_log_and_a_huge_one_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set("one"))
    good, bad = signed(), signed(by="two")
    with secured("pykafka", LISTENERS, settings(path.as_uri())) as broker:
        with broker.connect("SIGNED") as client:
            bearer(client, good)
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, bad)
        with broker.connect("SIGNED") as client:
            assert is_cut_off(client)
        with broker.connect("UNSECURED") as client:
            bearer(client, unsecured())
        log = broker.target.log_path.read_text()
    assert "its signature is wrong" in log
    for token in (good, bad):
        assert not any(part in log for part in token.split("."))


def is_cut_off(client: RawClient) -> bool:
    """Return whether the broker hangs up on a token of 100 MB because of its length, before the bytes arrive."""
    client.send_bytes((100 << 20).to_bytes(4, "big"))
    client.send_bytes(framed(b"x")[:2])
    return client.is_closed_by_broker()


def test_nobody_waits_for_keys_that_come_from_a_slow_url() -> None:
    site = KeySite(key_set("one"))
    with site, secured("pykafka", LISTENERS, settings(site.url)) as broker:
        with broker.connect("SIGNED") as client:
            bearer(client, signed())
        site.content = key_set("two")
        site.open.clear()
        time.sleep(1.1)
        with broker.connect("SIGNED") as client, pytest.raises(NotAuthenticated):
            bearer(client, signed(kid="two"))  # an unknown key makes the broker read the keys again
        with broker.connect("SIGNED") as client:
            bearer(client, signed())
            assert client.call(MetadataRequest([])).brokers
        site.open.set()
        eventually(lambda: is_let_in(broker, signed(kid="two")), True)
        assert site.asked == 2


def is_let_in(broker: Secured, token: str) -> bool:
    with broker.connect("SIGNED") as client:
        try:
            bearer(client, token)
        except NotAuthenticated:
            return False
        return True
