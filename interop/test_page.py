"""The page in a real Chromium: every view, changes while a view is open, and malicious contents.

The browser is one that the machine has, or one that npm brings (`interop/chromium.py`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from interop.browsing import TIMEOUT_MS, Tab, playwright, produce, see
from interop.raw import RawClient
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.testing import KafkaBroker

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HOSTILE = "<img src=x onerror=\"document.title='broken into'\"><script>document.title='broken into'</script>"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"num.partitions": 1}, schema_registry=True) as broker:
        yield broker


def test_every_view_shows_what_it_is_for(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("views", config={"retention.ms": 77})
    produce(broker, "views", 3)
    transactional = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "views-till"})
    transactional.init_transactions()
    transactional.begin_transaction()
    transactional.produce("views", "undecided")
    transactional.flush(60)
    see(tab.open("/"), broker.bootstrap_servers)
    see(tab.page, "serving")
    see(tab.open("/topics"), "views")
    see(tab.open("/topics/views"), "undecided from 3")
    see(tab.open("/topics/views/configs"), "retention.ms")
    tab.page.get_by_label("Only what was set").check()
    playwright.expect(tab.page.locator("tbody")).not_to_contain_text("default")
    see(tab.page, "77")
    see(tab.open("/topics/views/records"), "open")
    see(tab.open("/transactions"), "views-till")
    see(tab.page, "Ongoing")
    see(tab.open("/requests?api=Produce"), "Produce v")
    tab.page.get_by_role("button", name="Produce v").last.click()
    see(tab.page, '"key": "key-0"')
    see(tab.open("/connections"), "confluent-kafka-python")
    see(tab.open("/testing"), "There are no faults.")
    see(tab.open("/brokers/1"), "log.retention.hours")
    transactional.abort_transaction()


def test_what_clients_push_is_shown(tab: Tab, broker: KafkaBroker) -> None:
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="the extra is not installed")
    data = metrics.MetricsData()
    pushed = data.resource_metrics.add().scope_metrics.add().metrics
    pushed.add(name="of.the.page").gauge.data_points.add(as_double=12.5)
    pushed.add(name="another").gauge.data_points.add(as_double=3)
    see(tab.open("/telemetry"), "No client has pushed metrics.")
    with RawClient(broker.bootstrap_servers, client_id="pusher") as client:
        asked = client.call(GetTelemetrySubscriptionsRequest())
        instance, metrics_bytes = asked.client_instance_id, data.SerializeToString()
        client.call(PushTelemetryRequest(instance, asked.subscription_id, metrics=metrics_bytes))
        see(tab.page, "pushing")
        see(tab.page, "12.5")
        tab.page.get_by_label("Metric", exact=True).fill("other")
        playwright.expect(tab.page.locator("main")).not_to_contain_text("12.5")
    see(tab.page, "gone")


def test_a_record_is_opened_and_json_is_laid_out(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("opened")
    produce(broker, "opened", 2)
    broker.produce("opened", [{"value": b"\x00\x01\x02\x03\xff"}, {"key": "gone"}])
    page = tab.open("/topics/opened/records")
    see(page, "tombstone")
    page.get_by_role("button", name="0", exact=True).click()
    see(page, '"number": 0')
    playwright.expect(page.locator("dd").first).to_have_text("abc")
    page.get_by_role("button", name="2", exact=True).click()
    see(page, "00 01 02 03 ff")


def test_what_a_serializer_has_written_is_read_by_its_schema(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("avro")
    fields = [{"name": "item", "type": "string"}, {"name": "id", "type": "long"}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    registry = SchemaRegistryClient({"url": broker.schema_registry_url})
    serialize = AvroSerializer(registry, json.dumps(schema))
    value = serialize({"item": "apples", "id": 2**62 + 1}, SerializationContext("avro", MessageField.VALUE))
    broker.produce("avro", [{"value": value}])
    broker.produce("avro", [{"value": b"\0\0\0\0\0"}, {"value": b"\xff" * 9}])
    page = tab.open("/topics/avro/records")
    row = page.locator("tbody tr").last
    playwright.expect(row).to_contain_text(f'"id": {2**62 + 1}')  # in the list too
    playwright.expect(row).to_contain_text("AVRO")
    page.get_by_role("button", name="0", exact=True).click()
    playwright.expect(page.get_by_label("value, decoded")).to_contain_text(f'"id": {2**62 + 1}')
    see(page, "AVRO")
    for label, sought in (("Value contains", '"item": "apples"'), ("Field of the value", "item=apples")):
        tab.open("/")
        page = tab.open("/topics/avro/records")
        playwright.expect(page.locator("tbody tr")).to_have_count(3)
        page.get_by_label(label).fill(sought)
        page.get_by_role("button", name="Read", exact=True).click()
        playwright.expect(page.locator("tbody tr")).to_have_count(1)


def test_who_uses_the_keyboard_stays_where_he_is(tab: Tab) -> None:
    page = tab.open("/")
    link = page.locator("main").get_by_role("link", name="Connections", exact=True)
    link.focus()
    see(page, "/s")  # it is shown anew
    playwright.expect(link).to_be_focused()


def test_the_views_are_named_in_one_line_of_a_laptop_s_window(tab: Tab, broker: KafkaBroker) -> None:
    page = tab.open("/")
    broker.clock.freeze()
    try:
        playwright.expect(page.locator("#clock")).to_contain_text("UTC, frozen")
        assert page.evaluate(
            "document.getElementById('nav').offsetHeight < 2 * document.querySelector('#nav a').offsetHeight"
        )
    finally:
        broker.clock.resume()


def test_a_narrow_window_has_room_for_the_content(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 844})
    for address, text in (("/testing", "Faults"), ("/brokers/1", "broker.id")):
        page = tab.open(address)
        see(page, text)
        assert page.evaluate("document.querySelector('header').offsetHeight") < 120
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        boxes = "[...document.querySelectorAll('.card')].filter((each) => each.scrollWidth > each.clientWidth).length"
        assert page.evaluate(boxes) == 0


def test_records_are_looked_for(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("searched")
    produce(broker, "searched", 250)
    page = tab.open("/topics/searched/records")
    see(page, "100 shown")
    playwright.expect(page.locator("tbody tr").first).to_contain_text("key-249")
    for shown in (200, 250):
        page.get_by_role("button", name="Older").click()
        playwright.expect(page.locator("tbody tr")).to_have_count(shown)
    playwright.expect(page.locator("tbody tr").last).to_contain_text("key-0")
    playwright.expect(page.get_by_role("button", name="Older")).to_be_disabled()
    see(page, "back to the first")
    page.get_by_label("Key contains").fill("key-24")
    page.get_by_role("button", name="Read", exact=True).click()
    playwright.expect(page.locator("tbody tr")).to_have_count(11)
    page.get_by_label("Key contains").fill("")
    page.locator("select").select_option("offset")
    page.get_by_label("From which").fill("200")
    page.get_by_role("button", name="Read", exact=True).click()
    playwright.expect(page.locator("tbody tr")).to_have_count(50)
    page.locator("select").select_option("beginning")
    page.get_by_role("button", name="Read", exact=True).click()
    playwright.expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_role("button", name="More").click()
    playwright.expect(page.locator("tbody tr")).to_have_count(200)


def test_a_topic_is_made_written_to_and_deleted(tab: Tab, broker: KafkaBroker) -> None:
    page = tab.open("/topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name").fill("by hand")
    page.get_by_role("button", name="Create", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("INVALID_TOPIC_EXCEPTION")
    page.get_by_label("Name").fill("by-hand")
    page.get_by_label("Configs").fill("cleanup.policy=compact")
    page.get_by_role("button", name="Create", exact=True).click()
    see(page, "by-hand")
    assert broker.topic("by-hand")["config"] == {"cleanup.policy": "compact"}
    page.get_by_role("link", name="Records", exact=True).click()
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_label("Key", exact=True).fill("k")
    page.get_by_label("Value", exact=True).fill('{"a": 1}')
    page.get_by_label("Headers").fill("trace: 17")
    page.get_by_role("button", name="Produce", exact=True).click()
    see(page, '{"a": 1}')
    (record,) = broker.records("by-hand")
    assert (record.key, record.value, record.headers) == ("k", '{"a": 1}', (("trace", "17"),))
    page.get_by_role("link", name="Partitions").click()
    page.get_by_role("button", name="Delete the topic").click()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.locator("h1")).to_have_text("Topics")
    assert "by-hand" not in {each["name"] for each in broker.topics()}


def test_a_page_that_follows_says_that_it_is_behind(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("fast")
    page = tab.open("/topics/fast/records")
    see(page, "0 shown")  # what is there at the first reading is no lag
    page.get_by_label("Follow").check()
    broker.produce("fast", ["one of many"] * 3_000)
    see(page, "behind the end: at most 500 records a second are followed")
    playwright.expect(page.get_by_text("behind the end")).to_have_count(0)


def test_what_changes_is_seen_without_a_reload(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("live")
    page = tab.open("/topics/live/records")
    page.get_by_label("Follow").check()
    produce(broker, "live", 2)
    see(page, "key-1")
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "live-group", "auto.offset.reset": "earliest"}
    consumer = Consumer(config | {"enable.auto.commit": False})
    consumer.subscribe(["live"])
    message = consumer.poll(60)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    page = tab.open("/groups/live-group")
    see(page, "lag 1")
    message = consumer.poll(60)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    see(page, "lag 0")
    consumer.close()
    see(page, "Empty")
    page = tab.open("/requests")
    page.get_by_label("API").fill("CreateTopics")
    page.get_by_label("API").press("Enter")
    make_topics(broker, ["made-live"])
    see(page, "CreateTopics v")


def test_the_clock_and_faults_are_switched(tab: Tab, broker: KafkaBroker) -> None:
    page = tab.open("/testing")
    before = broker.clock.now()
    page.get_by_role("button", name="+ 1 day").click()
    deadline = time.monotonic() + 20
    while broker.clock.now() < before + 86_400_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert broker.clock.now() >= before + 86_400_000
    page.get_by_role("button", name="Freeze").click()
    playwright.expect(page.locator(".card")).to_contain_text("frozen")
    page.get_by_role("button", name="Resume").click()
    playwright.expect(page.locator(".card")).not_to_contain_text("frozen")
    page.get_by_role("button", name="Add a fault").click()
    playwright.expect(page.get_by_role("dialog")).to_be_visible()
    assert page.evaluate("document.querySelector('dialog').getBoundingClientRect().bottom <= innerHeight")
    for known, name in (("apis", "StreamsGroupHeartbeat"), ("errors", "NOT_LEADER_OR_FOLLOWER")):
        assert page.locator(f"datalist#{known} option[value={name}]").count() == 1
    page.get_by_label("API").fill("Prodduce")
    page.get_by_label("Error", exact=True).fill("NOT_LEADER_OR_FOLLOWER")
    page.get_by_label("Every n-th").fill("2")
    page.get_by_role("button", name="Add", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("Produce")
    page.get_by_label("API").fill("Produce")
    page.get_by_role("button", name="Add", exact=True).click()
    see(page, "api=Produce  every=2  error=NOT_LEADER_OR_FOLLOWER")
    assert len(broker.faults.all()) == 1
    page.get_by_role("button", name="Remove", exact=True).click()
    see(page, "There are no faults.")


def test_snapshots_are_taken_and_restored(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("kept")
    broker.produce("kept", ["1"])
    page = tab.open("/testing")
    page.get_by_role("button", name="Take a snapshot").click()
    page.get_by_label("Name").fill("not a name")
    page.get_by_role("button", name="Take", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("letters, digits")
    page.get_by_label("Name").fill("one")
    page.get_by_role("button", name="Take", exact=True).click()
    see(page, "one")
    broker.produce("kept", ["2"])
    page.get_by_role("button", name="Restore").click()
    playwright.expect(page.locator("#toasts")).to_contain_text("as it was at one")
    assert [record.value for record in broker.records("kept")] == ["1"]
    page.get_by_role("table", name="Snapshots").get_by_role("button", name="Delete").click()
    see(page, "There are no snapshots.")


HELD_BACK = """{
  const ask = fetch;
  window.unanswered = 0;
  window.fetch = async (...all) => {
    window.unanswered += 1;
    await window.held;
    return ask(...all).finally(() => { window.unanswered -= 1; });
  };
}"""
OPENED = """(address) => {
  window.held = new Promise((go) => { window.answer = go; });
  location.hash = address;
}"""
ANSWERED = """async () => {
  window.answer();
  do await new Promise((go) => requestAnimationFrame(() => setTimeout(go))); while (window.unanswered);
}"""
PLACES = """() => {
  window.buttons ??= [...document.querySelectorAll("main button, main input, main select")];
  const top = (each) => each.isConnected && each.getBoundingClientRect().top;
  return window.buttons.map((each) => [each.textContent || each.type, top(each)]);
}"""


def test_what_can_be_clicked_stays_where_it_is_when_answers_come(browser: Browser) -> None:
    """Between the press and the release of a mouse button, a button that moves gets no click.

    The broker is empty: rows of a table move what is below.
    """
    with KafkaBroker(schema_registry=True) as broker:
        tab = Tab(browser, broker)
        tab.page.add_init_script(HELD_BACK)
        page = tab.open("/")
        see(page, "Brokers")
        for view in page.locator("#nav a").evaluate_all("(links) => links.map((each) => each.getAttribute('href'))"):
            page.evaluate(OPENED, view)
            playwright.expect(page.locator(f"#nav a[href='{view}']")).to_have_attribute("aria-current", "page")
            before = page.evaluate(PLACES)
            page.evaluate(ANSWERED)
            after = page.evaluate(PLACES)
            assert [each for each in after if each[1] is not False] == [
                each for each, now in zip(before, after, strict=True) if now[1] is not False
            ], view
            page.evaluate("delete window.buttons")
        tab.close()


def test_schemas_and_rights_are_shown(tab: Tab, broker: KafkaBroker) -> None:
    SchemaRegistryClient({"url": broker.schema_registry_url}).register_schema("shown", Schema('"string"', "AVRO"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    password = UserScramCredentialUpsertion("carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), b"x")
    for done in admin.alter_user_scram_credentials([password]).values():
        done.result(60)
    page = tab.open("/schemas?search=sho")
    page.get_by_role("button", name="shown").click()
    playwright.expect(page.get_by_label("Schema", exact=True)).to_have_text('"string"')
    see(page, "BACKWARD")
    page = tab.open("/access")
    playwright.expect(page.get_by_role("table", name="Users")).to_contain_text("carol")
    see(page, "There are no quotas.")


def test_groups_are_sorted(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("behind")
    broker.produce("behind", ["1", "2", "3"])
    for offset, group in enumerate(("sorted-b", "sorted-c", "sorted-a")):
        broker.commit(group, "behind", offset)
    page = tab.open("/groups?search=sorted")
    names = page.locator("tbody tr td:first-child")
    playwright.expect(names).to_have_text(["sorted-a", "sorted-b", "sorted-c"])
    page.get_by_role("button", name="Lag").click()
    playwright.expect(names).to_have_text(["sorted-a", "sorted-c", "sorted-b"])
    page.get_by_role("button", name="Lag").click()
    playwright.expect(names).to_have_text(["sorted-b", "sorted-c", "sorted-a"])
    assert "sort=lag" in page.url


def test_a_group_of_many_partitions_is_shown_in_part_and_says_so(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("wide", 501)
    broker.reset_offsets("wide-readers", topic="wide", to="earliest")
    see(tab.open("/groups/wide-readers"), "Offsets (the first 500 of 501)")
    playwright.expect(tab.page.get_by_role("table", name="Offsets").locator("tbody tr")).to_have_count(500)


def test_a_group_is_reset_and_deleted(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("read", 2)
    broker.produce("read", [{"value": str(number), "partition": 0} for number in range(5)])
    broker.commit("readers", "read", 5)
    broker.create_topic("unread")
    page = tab.open("/topics/read/groups")
    page.get_by_role("link", name="readers").click()
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_role("dialog").locator("select").last.select_option("offset")
    page.get_by_role("button", name="Reset", exact=True).click()  # without an offset
    playwright.expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_label("Which").fill("99")
    page.get_by_role("button", name="Reset", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("has offsets 0 to")
    assert [each["committed"] for each in broker.group("readers")["offsets"]] == [5, None]
    page.get_by_role("dialog").locator("select").last.select_option("earliest")
    page.get_by_role("button", name="Reset", exact=True).click()
    see(page, "lag 5")
    assert [each["committed"] for each in broker.group("readers")["offsets"]] == [0, 0]
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_label("Name").fill("reader")
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.get_by_role("alert")).to_have_text("That is not its name.")
    page.get_by_label("Name").fill("readers")
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.locator("h1")).to_have_text("Groups")
    assert "readers" not in [each["group_id"] for each in broker.groups()]
    see(tab.open("/topics/unread/groups"), "No group has committed an offset of this topic.")


def test_a_topic_is_changed(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("grows", config={"retention.ms": 86_400_000})
    broker.produce("grows", ["1", "2", "3"])
    page = tab.open("/topics/grows")
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_label("Partitions in all").fill("3")
    page.get_by_role("button", name="Add", exact=True).click()
    see(page, "3 partitions")
    page.get_by_role("button", name="Delete records").click()
    page.get_by_label("Before the offset").fill("2")
    page.get_by_label("Partition", exact=True).fill("0")
    page.get_by_role("button", name="Delete", exact=True).click()
    playwright.expect(page.locator("tbody tr").first.locator("td").nth(5)).to_have_text("2")
    assert [record.value for record in broker.records("grows")] == ["3"]
    page = tab.open("/topics/grows/configs?search=retention.ms")
    playwright.expect(page.locator("tbody tr").filter(has_text="retention.ms").last).to_contain_text("1 day")
    row = page.get_by_role("row").filter(has=page.get_by_text("retention.ms", exact=True))
    row.get_by_role("button", name="Change").click()
    page.get_by_label("Value").fill("x")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("retention.ms")
    page.get_by_label("Back to the default").check()
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    playwright.expect(row).to_contain_text("default")
    assert "retention.ms" not in broker.topic("grows")["config"]


def test_a_record_is_copied_and_produced_again(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("again")
    broker.produce("again", [{"key": "k", "value": b"\xff\0", "headers": {"trace": "17"}}])
    page = tab.open("/topics/again/records")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="0", exact=True).click()
    page.get_by_role("button", name="Copy").click()
    playwright.expect(page.locator("#toasts")).to_contain_text("is copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied == {"partition": 0, "headers": [{"name": "trace", "value": "17"}], "key": "k", "value_base64": "/wA="}
    page.get_by_role("button", name="Produce again").click()
    page.get_by_role("button", name="Produce", exact=True).click()
    playwright.expect(page.locator("#toasts")).to_contain_text("at offset 1")
    first, second = broker.records("again")
    assert (first.key, first.value, first.headers) == (second.key, second.value, second.headers)


def test_what_is_looked_for_is_in_the_address(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("address-1")
    broker.create_topic("other")
    produce(broker, "address-1", 30)
    page = tab.open("/topics")
    page.get_by_role("searchbox").fill("addr")
    playwright.expect(page.get_by_role("link", name="other", exact=True)).to_have_count(0)
    playwright.expect(page).to_have_url(re.compile(r"#/topics\?search=addr$"))
    page.get_by_role("link", name="address-1").click()
    see(page, "1 partition")
    page.go_back()
    playwright.expect(page.get_by_role("searchbox")).to_have_value("addr")
    playwright.expect(page.get_by_role("link", name="other", exact=True)).to_have_count(0)
    page = tab.open("/topics/address-1/records?key=key-17&from=beginning")
    see(page, "1 shown, 30 looked at")
    page.get_by_label("Key contains").fill("key-2")
    page.locator("form select").select_option("offset")
    page.get_by_label("From which").fill("25")
    page.get_by_role("button", name="Read").click()
    see(page, "5 shown")
    playwright.expect(page).to_have_url(re.compile(r"\?from=offset&at=25&key=key-2$"))
    page.reload()
    see(page, "5 shown")
    page = tab.open("/requests?api=CreateTopics&errors=true")
    playwright.expect(page.get_by_label("API")).to_have_value("CreateTopics")
    playwright.expect(page.get_by_label("Only errors")).to_be_checked()


def test_a_list_that_is_drawn_during_a_click_does_not_take_the_address_back(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("left")
    page = tab.open("/topics/left/configs")
    see(page, "retention.ms")
    search = page.get_by_role("searchbox")
    search.evaluate("search => { location.hash = '#/groups'; search.dispatchEvent(new Event('input')) }")
    playwright.expect(page).to_have_url(re.compile(r"#/groups$"))
    see(page, "Groups")


def test_no_name_pushes_the_rest_out_of_sight(tab: Tab, broker: KafkaBroker) -> None:
    long = "n" * 218
    broker.create_topic(long)
    broker.produce(long, [{"key": "k" * 900, "value": "v" * 900}])
    page = tab.open("/topics?search=nnn")
    see(page, "of 1")
    assert page.evaluate("document.querySelector('.scroll').scrollWidth <= innerWidth")
    page = tab.open(f"/topics/{long}/records")
    page.get_by_role("button", name="0", exact=True).click()
    see(page, "Leader epoch")
    assert page.evaluate("document.querySelector('.opened').getBoundingClientRect().right <= innerWidth")


def test_what_means_harm_is_text(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("harm")
    config = {"bootstrap.servers": broker.bootstrap_servers, "client.id": HOSTILE}
    producer = Producer(config)
    producer.produce("harm", key=HOSTILE, value=HOSTILE, headers={HOSTILE: HOSTILE})
    producer.produce("harm", value=json.dumps({HOSTILE: [HOSTILE]}))
    assert producer.flush(60) == 0
    group = Consumer(config | {"group.id": HOSTILE, "auto.offset.reset": "earliest"})
    group.subscribe(["harm"])
    assert group.poll(60) is not None
    group.commit(asynchronous=False)
    page = tab.open("/topics/harm/records")
    for offset in "01":
        page.get_by_role("button", name=offset, exact=True).click()
        see(page, HOSTILE)
    for address in ("/groups", "/requests", "/connections"):
        see(tab.open(address), HOSTILE)
    tab.open("/groups").get_by_role("link", name=HOSTILE).click()
    playwright.expect(page.locator("h1")).to_have_text(HOSTILE)
    tab.open(f"/topics/{HOSTILE.replace('%', '')}")
    playwright.expect(page.get_by_role("alert")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert "broken into" not in page.title()[:11]
    group.close()


def test_it_is_used_without_a_mouse(tab: Tab, broker: KafkaBroker) -> None:
    broker.create_topic("keys")
    produce(broker, "keys")
    page = tab.open("/")
    see(page, broker.bootstrap_servers)
    page.keyboard.press("g")
    page.keyboard.press("t")
    playwright.expect(page.locator("h1")).to_have_text("Topics")
    see(page, "keys")
    page.keyboard.press("/")
    page.keyboard.type("keys")
    playwright.expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Tab")
    for _ in range(20):
        if page.evaluate("document.activeElement.textContent") == "keys":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("h1")).to_have_text("keys")
    page.keyboard.press("?")
    playwright.expect(page.get_by_role("dialog")).to_contain_text("search in this list")
    page.keyboard.press("Escape")
    playwright.expect(page.get_by_role("dialog")).to_have_count(0)


def test_it_is_dark_where_the_machine_is(browser: Browser, broker: KafkaBroker) -> None:
    tab = Tab(browser, broker, dark=True)
    page = tab.open("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 24, 22)"
    page.get_by_label("Switch between light and dark").click()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    tab.close()
    assert tab.wrongs == []


def test_a_hundred_megabytes_are_shown_by_their_beginning(tab: Tab, broker: KafkaBroker) -> None:
    size = 100 << 20
    broker.create_topic("heavy", config={"max.message.bytes": 2 * size})
    broker.produce("heavy", [{"value": "x" * size}])
    received: list[int] = []
    tab.page.on("response", lambda response: received.append(int(response.headers.get("content-length", 0))))
    page = tab.open("/topics/heavy/records")
    see(page, "100 MiB")
    page.get_by_role("button", name="0", exact=True).click()
    page.get_by_role("button", name="Show 64 KiB more").click()
    playwright.expect(page.locator("pre")).to_contain_text("x" * 66_000)
    assert sum(received) < 1 << 20


def test_thousands_of_topics_are_a_list_like_any_other(browser: Browser, pytestconfig: pytest.Config) -> None:
    many = 10_000 if pytestconfig.getoption("--slow") else 2_000
    with KafkaBroker({"num.partitions": 1}) as broker:
        for first in range(0, many, 1_000):
            make_topics(broker, [f"many-{number:05}" for number in range(first, first + 1_000)])
        tab = Tab(browser, broker)
        page = tab.open("/topics")
        see(page, f"100 of {many:,}")
        begun = page.evaluate("performance.now()")
        page.get_by_role("button", name="Size").click()
        page.keyboard.press("/")
        page.keyboard.type("01999")
        playwright.expect(page.locator("tbody tr")).to_have_count(1)
        took_ms = page.evaluate("performance.now()") - begun
        assert page.locator("tbody a").first.text_content() == "many-01999"
        assert took_ms < TIMEOUT_MS
        tab.close()
        assert tab.wrongs == []


def make_topics(broker: KafkaBroker, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, 1) for name in names]).values():
        made.result(60)
