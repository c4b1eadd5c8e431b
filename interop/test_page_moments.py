"""The page in a real Chromium where moments matter: answers that come late, clicks that come twice, brokers that go.

An answer is held back on its way to the page, so no test depends on how fast the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from interop.browsing import Tab, playwright, produce, see
from interop.raw import RawClient
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.testing import KafkaBroker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LONG = 2**60 + 1


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"num.partitions": 1}, schema_registry=True) as broker:
        yield broker


def held(page: Page, pattern: str) -> list[Route]:
    """Hold back what the page asks for, until the test lets it go on."""
    routes: list[Route] = []
    page.route(pattern, lambda route: routes.append(route))
    return routes


def come(page: Page, routes: list[Route], count: int) -> None:
    """Wait until the page has asked `count` times."""
    while len(routes) < count:
        page.wait_for_timeout(20)


def test_a_second_click_does_not_show_records_twice(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("twice")
    produce(broker, "twice", 300)
    page = tab.open("/topics/twice/records")
    see(page, "100 shown")
    page.evaluate("for (let click = 0; click < 3; click += 1) document.getElementById('next').click()")
    see(page, "200 shown")
    page.get_by_role("button", name="Older").click()
    see(page, "300 shown")
    offsets = page.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert offsets == [str(offset) for offset in reversed(range(300))]


def test_a_second_click_does_not_show_a_piece_twice(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("pieces")
    value = "".join(f"{number:07} " for number in range(10_000))
    broker.produce("pieces", [{"value": value}])
    page = tab.open("/topics/pieces/records")
    page.get_by_role("button", name="0", exact=True).click()
    more = page.get_by_role("button", name="Show 64 KiB more")
    more.evaluate("button => { button.click(); button.click(); }")
    see(page, "0008000")
    more.click()
    playwright.expect(page.locator("pre")).to_have_text(value)


def test_a_second_enter_does_not_produce_twice(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("entered")
    page = tab.open("/topics/entered/records")
    page.get_by_role("button", name="Produce a record").click()
    page.locator("dialog form").evaluate("form => { form.requestSubmit(); form.requestSubmit(); }")
    playwright.expect(page.get_by_role("dialog")).to_have_count(0)
    see(page, "1 shown")
    page.get_by_role("button", name="Read", exact=True).click()
    see(page, "1 shown")
    assert len(broker.records("entered")) == 1


def test_an_answer_to_an_older_question_is_not_shown(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("older")
    produce(broker, "older", 20)
    page = tab.open("/topics/older/records")
    see(page, "20 shown")
    routes = held(page, "**/browse/topics/older/records?*key=key-1*")
    page.get_by_label("Key contains").fill("key-1")
    page.get_by_role("button", name="Read", exact=True).click()
    come(page, routes, 1)
    page.get_by_label("Key contains").fill("key-7")
    page.get_by_role("button", name="Read", exact=True).click()
    rows = page.locator("tbody tr")
    playwright.expect(rows).to_have_count(1)
    with page.expect_response("**/records?*key=key-1*") as answered:
        routes[0].continue_()
    answered.value.finished()
    page.evaluate("fetch('/page/icon.svg').then((answer) => answer.text())")
    playwright.expect(rows).to_have_count(1)
    assert page.url.endswith("?key=key-7")


def test_what_is_typed_in_and_not_asked_for_yet_changes_no_rows(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("typed")
    produce(broker, "typed", 150)
    page = tab.open("/topics/typed/records")
    see(page, "100 shown")
    page.get_by_label("Key contains").fill("nothing")
    page.get_by_role("button", name="Older").click()
    see(page, "150 shown")


def test_a_view_that_was_left_complains_of_nothing(tab: Tab) -> None:
    page = tab.open("/schemas")
    see(page, "No schema is registered.")
    routes = held(page, "**/browse/schemas*")
    page.get_by_role("searchbox").fill("a")
    come(page, routes, 1)
    page.evaluate("location.hash = '#/groups'")
    see(page, "There are no groups.")
    page = tab.open("/testing")
    see(page, "There are no faults.")
    routes = held(page, "**/clock/freeze")
    page.get_by_role("button", name="Freeze").click()
    come(page, routes, 1)
    page.evaluate("location.hash = '#/groups'")
    with page.expect_response("**/clock/freeze") as answered:
        routes[0].fulfill(json={"now_ms": 0, "frozen": False})
    answered.value.finished()
    see(page, "There are no groups.")
    assert page.locator(".toast").count() == 0


def test_the_link_to_the_content_leaves_the_view_as_it_is(tab: Tab) -> None:
    page = tab.open("/topics")
    see(page, "Create a topic")
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("main")).to_be_focused()
    see(page, "Create a topic")
    see(tab.open("/topics/%"), "there is no topic %")


def test_a_view_is_shown_once_the_broker_is_back(tab: Tab) -> None:
    tab.page.route("**/broker", lambda route: route.abort())
    page = tab.open("/")
    see(page, "does not answer")
    page.unroute("**/broker")
    see(page, "serving")
    tab.wrongs.clear()  # the browser itself complains of the answer that did not come


def test_a_filter_that_no_request_fits_is_refused_plainly(tab: Tab) -> None:
    see(tab.open("/requests?api=Prodduce"), "did you mean Produce")


def test_long_numbers_keep_their_digits(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("long", config={"message.timestamp.after.max.ms": 2**63 - 1})
    broker.produce("long", [{"value": "1", "timestamp": LONG}])
    broker.commit("far", "long", LONG)
    page = tab.open("/topics/long/records")
    see(page, str(LONG))
    page.get_by_role("button", name="0", exact=True).click()
    see(page, f"{LONG} (CreateTime)")
    see(tab.open("/groups/far"), f"{LONG:,}")
    with RawClient(broker.bootstrap_servers) as client:
        partition = ListOffsetsPartition(partition_index=0, timestamp=LONG)
        client.call(ListOffsetsRequest(topics=[ListOffsetsTopic("long", [partition])]))
    page = tab.open("/requests?api=ListOffsets")
    page.get_by_role("button", name="ListOffsets").click()
    see(page, f'"timestamp": {LONG}')


def test_the_last_page_is_shown_where_rows_have_gone(tab: Tab, broker: KafkaBroker) -> None:
    for number in range(101):
        broker.create_topic(f"gone-{number:03}")
    page = tab.open("/topics?search=gone&offset=100")
    see(page, "of 101")
    broker.delete_topic("gone-100")
    playwright.expect(page.locator("tbody tr")).to_have_count(100)


def test_a_list_is_up_to_date_once_the_focus_has_left_it(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("focus")
    page = tab.open("/topics?search=focus")
    link = page.get_by_role("link", name="focus", exact=True)
    link.focus()
    produce(broker, "focus", 7)
    for _ in range(4):  # until nothing changes any more
        with page.expect_response("**/browse/topics?*"):
            pass
    playwright.expect(link).to_be_focused()
    link.blur()
    playwright.expect(page.locator("tbody tr").first.locator("td").nth(3)).to_have_text("7")


def test_a_record_is_produced_again_as_it_is(tab: Tab, broker: KafkaBroker) -> None:
    headers = [("a", "1"), ("null", None), ("bytes", b"\xff"), ("lines", "1\n2: 3"), ("a:b", "c")]
    broker.create_topic("alike")
    config = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(config)
    producer.produce("alike", key="k\nl", value="1\r\n2", headers=headers)
    producer.produce("alike", key=b"\xff", value="\ufeff" + "v" * 200_000, headers={})
    assert producer.flush(60) == 0
    page = tab.open("/topics/alike/records")
    for offset in range(2):
        page.get_by_role("button", name=str(offset), exact=True).click()
        page.get_by_role("button", name="Produce again").click()
        page.get_by_role("button", name="Produce", exact=True).click()
        playwright.expect(page.locator("#toasts")).to_contain_text(f"at offset {offset + 2}")
        playwright.expect(page.get_by_role("button", name=str(offset + 2), exact=True)).to_be_visible()
    first, second, third, fourth = broker.records("alike")
    assert (third.key, third.value) == (first.key, first.value)
    assert sorted(third.headers, key=str) == sorted(first.headers, key=str)
    assert (fourth.key, fourth.value) == (second.key, second.value)


def test_long_json_is_laid_out_at_once(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("json")
    broker.produce("json", [{"value": json.dumps([{"a": number, "b": []} for number in range(20_000)])}])
    page = tab.open("/topics/json/records")
    page.get_by_role("button", name="0", exact=True).click()
    more = page.get_by_role("button", name="Show 64 KiB more")
    playwright.expect(more).to_be_visible()
    while more.count():
        length = len(page.locator("pre").text_content() or "")
        more.click()
        page.wait_for_function("length => document.querySelector('pre').textContent.length > length", arg=length)
    playwright.expect(page.locator("pre")).to_contain_text('"a": 19999,\n    "b": []\n  }\n]')


def test_requests_are_shown_again_after_a_restart(browser: Browser) -> None:
    with KafkaBroker() as broker:
        tab = Tab(browser, broker)
        page = tab.open("/requests?client=before-*")
        ask_as(broker, "before-1", 9)
        see(page, "the last 9")
        broker.restart()
        ask_as(broker, "before-2", 2)
        see(page, "before-2")
        see(page, "the last 2")
        tab.close()


def ask_as(broker: KafkaBroker, client_id: str, count: int) -> None:
    with RawClient(broker.bootstrap_servers, client_id=client_id) as client:
        for _ in range(count):
            client.call(ApiVersionsRequest())
