"""The files of the page: what is served, to whom, and what is not."""

from __future__ import annotations

import http.client
import json
import re
from urllib.parse import urlsplit

import pytest

from pykafka_broker.control.door import ENTRY, page_files, page_response
from pykafka_broker.control.http import Request
from pykafka_broker.testing import KafkaBroker


def ask(broker: KafkaBroker, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(broker.control_url).netloc, timeout=30)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def test_the_page_and_all_that_it_names_are_there(broker: KafkaBroker) -> None:
    status, headers, content = ask(broker, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    asked_for = set(re.findall(r'(?:src|href)="(/page/[^"]+)"', content.decode()))
    assert len(asked_for) >= 3
    for name, file in page_files().items():
        asked_for |= set(re.findall(r'from "(/page/[^"]+)"', file.content.decode())) if name.endswith(".js") else set()
    for path in asked_for:
        status, headers, content = ask(broker, path)
        assert (status, content) == (200, page_files()[path.removeprefix("/page/")].content)
        assert headers["x-content-type-options"] == "nosniff"
    of_replay = {"timeline.js"}  # `replay --page` names it
    assert {path.removeprefix("/page/") for path in asked_for} | of_replay | {ENTRY} == {*page_files()}


def test_nothing_comes_from_elsewhere_and_nothing_is_markup() -> None:
    for name, file in page_files().items():
        text = file.content.decode()
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text), name
    assert b"<style" not in page_files()[ENTRY].content
    assert not re.search(rb"<script(?![^>]* src=)", page_files()[ENTRY].content)


def test_a_policy_keeps_scripts_from_elsewhere_out(broker: KafkaBroker) -> None:
    policy = ask(broker, "/")[1]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/page/",
        "/page/nothing.js",
        "/page/../page.py",
        "/page/%2e%2e/page.py",
        "/page/..%2fpage.py",
        "/page//etc/passwd",
        "/page/app.js/",
        "/page/app.js%00",
        "/page/./app.js",
        "/page/%61pp.js",
    ],
)
def test_no_path_leads_out_of_the_page(broker: KafkaBroker, path: str) -> None:
    status, headers, content = ask(broker, path)
    assert (status, headers["content-type"]) == (404, "application/problem+json")
    assert json.loads(content)["detail"] == "the page has no such file"


def test_it_is_only_read(broker: KafkaBroker) -> None:
    for method in ("POST", "PUT", "DELETE"):
        status, headers, _ = ask(broker, "/", method)
        assert (status, headers["allow"]) == (405, "GET")
    status, headers, content = ask(broker, "/", "HEAD")
    assert (status, content) == (200, b"")
    assert int(headers["content-length"]) == len(page_files()[ENTRY].content)


def test_what_a_browser_has_is_not_sent_again(broker: KafkaBroker) -> None:
    tag = ask(broker, "/page/app.js")[1]["etag"]
    assert ask(broker, "/page/app.js", if_none_match=tag)[::2] == (304, b"")
    assert ask(broker, "/page/app.js", if_none_match=f'"other", W/{tag}')[0] == 304
    assert ask(broker, "/page/app.js", if_none_match='"other"')[0] == 200


def test_only_its_own_page_may_ask_the_broker(broker: KafkaBroker) -> None:
    own = broker.control_url
    assert ask(broker, "/browse", origin=own)[0] == 200
    assert ask(broker, "/browse", origin=own, sec_fetch_site="same-origin")[0] == 200
    for origin in ("null", "http://evil.example", own.replace("http:", "https:"), f"{own}.evil.example", f"{own}0"):
        assert ask(broker, "/browse", origin=origin)[0] == 403, origin
    for site in ("cross-site", "same-site"):
        assert ask(broker, "/browse", sec_fetch_site=site)[0] == 403
        assert ask(broker, "/topics/t", "DELETE", sec_fetch_site=site)[0] == 403


def test_a_name_that_was_made_to_lead_here_gets_nothing(broker: KafkaBroker) -> None:
    assert ask(broker, "/", host="evil.example")[0] == 403
    assert ask(broker, "/page/app.js", host="evil.example:9092")[0] == 403
    assert ask(broker, "/browse", host="evil.example", origin="http://evil.example")[0] == 403


def test_a_target_that_is_no_address_is_refused(broker: KafkaBroker) -> None:
    assert ask(broker, "//[/")[0] == 400


def test_there_is_no_file_that_is_not_in_the_folder() -> None:
    assert page_response(Request("GET", "/page/style.css", {}, b""), "/page/style.css") is not None
    assert page_response(Request("GET", "/page/page.py", {}, b""), "/page/page.py") is None
