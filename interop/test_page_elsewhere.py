"""The page in a real Chromium: of a cluster, of a recording, behind a token."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import Consumer, Producer

from interop.browsing import TIMEOUT_MS, Tab, playwright, produce, see
from pykafka_broker.testing import KafkaBroker, KafkaCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_cluster_is_seen_as_one(browser: Browser) -> None:
    """The page of a broker shows the whole cluster: six partitions with one replica each on three brokers."""
    with KafkaCluster(3) as cluster:
        cluster.create_topic("spread", 6, replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(60):
            producer.produce("spread", b"value %02d" % number, partition=number % 6)
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["spread"])
        read = 0
        while read < 60:
            read += sum(each.error() is None for each in consumer.consume(60, 1))
        consumer.commit(asynchronous=False)
        consumer.close()
        coordinator = cluster.coordinator(group="readers")
        elsewhere = next(number for number in (1, 2, 3) if number != coordinator)
        tab = Tab(browser, cluster.broker(elsewhere))

        tab.open("topics")
        row = tab.page.locator("tr", has_text="spread")
        playwright.expect(row.locator("td").nth(3)).to_have_text("60")
        tab.open("topics/spread")
        ends = tab.page.get_by_role("table", name="Partitions").locator("tbody tr")
        playwright.expect(ends).to_have_count(6)
        assert all("10" in each for each in ends.all_inner_texts())
        tab.open("topics/spread/records")
        playwright.expect(tab.page.get_by_role("table", name="Records").locator("tbody tr")).to_have_count(60)
        tab.page.get_by_role("button", name="Produce a record").click()
        tab.page.get_by_label("Value", exact=True).fill("from the page")
        tab.page.get_by_label("Partition", exact=True).last.fill("5")
        tab.page.get_by_role("button", name="Produce", exact=True).click()
        see(tab.page, "from the page")
        tab.open("groups/readers")
        offsets = tab.page.get_by_role("table", name="Offsets").locator("tbody tr")
        playwright.expect(offsets).to_have_count(6)
        playwright.expect(tab.page.get_by_text("lag 1", exact=False)).to_be_visible()
        tab.open("requests")
        for number in (1, 2, 3):
            playwright.expect(
                tab.page.locator("tbody tr", has_text="Fetch").locator(f"td:nth-child(3):text-is('{number}')").first
            ).to_be_visible()

        tab.open("topics/spread/records")
        for count in range(62, 68):  # each goes to some partition, whoever leads it
            tab.page.get_by_role("button", name="Produce a record").click()
            tab.page.get_by_label("Value", exact=True).fill("anywhere")
            tab.page.get_by_role("button", name="Produce", exact=True).click()
            playwright.expect(tab.page.get_by_role("table", name="Records").locator("tbody tr")).to_have_count(count)
        tab.open("topics/spread")
        tab.page.get_by_role("button", name="Delete records").click()
        tab.page.get_by_role("button", name="Delete", exact=True).click()
        playwright.expect(tab.page.get_by_role("dialog")).to_have_count(0)
        tab.open("topics/spread/records")
        see(tab.page, "0 shown")
        for number in range(6):
            producer.produce("spread", b"left", partition=number)
        assert producer.flush(60) == 0

        # one node alone; and the rest of the cluster where a node is dead
        choice = tab.page.get_by_label("Nodes shown")
        choice.select_option(label=f"Node {elsewhere}")
        tab.open("groups")
        see(tab.page, "There are no groups.")
        choice.select_option(label="All nodes")
        see(tab.page, "readers")
        dead = next(number for number in (1, 2, 3) if number not in (coordinator, elsewhere))
        cluster.broker(dead).kill()
        tab.open("topics/spread/records")
        see(tab.page, ", without partition ")
        assert len(set(tab.page.locator("tbody td:first-child").all_text_contents())) == 4
        tab.open("groups")
        see(tab.page, "readers")
        tab.close()


def record_a_run(path: Path) -> None:
    """Record three orders, and a consumer that has read and committed them and stays in its group."""
    with KafkaBroker() as broker:
        broker.create_topic("orders")
        broker.start_recording()
        for _ in range(3):
            produce(broker, "orders")
        settings = {"group.id": "billing", "client.id": "biller", "auto.offset.reset": "earliest"}
        consumer = Consumer({**broker.client_config("confluent"), **settings, "enable.auto.commit": False})
        consumer.subscribe(["orders"])
        for _ in range(3):
            order = consumer.poll(60)
            assert order is not None
            consumer.commit(message=order, asynchronous=False)
        broker.save_recording(path)
        consumer.close()


def test_a_recording_is_seen_moment_by_moment(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record_a_run(path)
    command = [sys.executable, "-m", "pykafka_broker", "replay", str(path), "--page"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split(" requests: ")[1].split()[0]
        tab = Tab(browser, cast(KafkaBroker, SimpleNamespace(control_url=url)))
        page = tab.open("groups/billing")
        see(page, "biller")
        line = page.get_by_label("Request", exact=True)
        offsets = page.get_by_role("table", name="Offsets").locator("tbody tr")
        playwright.expect(offsets.locator("td").nth(2)).to_have_text("3")
        says = page.locator(".timeline button.link")
        while "OffsetCommit" not in says.inner_text():
            before = says.inner_text()
            page.get_by_role("button", name="Request before").click()
            playwright.expect(says).not_to_have_text(before)
        playwright.expect(page.locator(".timeline pre").first).to_be_hidden()
        says.click()
        playwright.expect(page.locator(".timeline pre").first).to_contain_text('"group_id": "billing"')
        page.screenshot(path=str(tmp_path / "timeline.png"))
        page.get_by_role("button", name="Request before").click()
        playwright.expect(offsets.locator("td").nth(2)).to_have_text("2")
        line.focus()
        page.keyboard.press("Home")
        playwright.expect(page.locator(".timeline output")).to_contain_text("0 of ")
        tab.open("topics")
        playwright.expect(page.locator("tr", has_text="orders").locator("td").nth(3)).to_have_text("0")
        line.press("End")
        playwright.expect(page.locator("tr", has_text="orders").locator("td").nth(3)).to_have_text("3")
        tab.close()
        assert tab.wrongs == []
        process.communicate("\n")
        assert process.returncode == 0


def test_a_token_is_asked_for_once(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("open sesame\n")
    command = [sys.executable, "-m", "pykafka_broker", "--ephemeral", "--listen", "0", "--stop-on-stdin-close"]
    command += ["--control", "127.0.0.1:0", "--control-token-file", str(token)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        page = browser.new_context().new_page()
        playwright.expect.set_options(timeout=TIMEOUT_MS)
        page.goto(url)
        page.get_by_role("textbox", name="Control token").fill("wrong")
        page.keyboard.press("Enter")
        playwright.expect(page.get_by_role("textbox", name="Control token")).to_have_value("")
        page.get_by_role("textbox", name="Control token").fill("open sesame")
        page.keyboard.press("Enter")
        playwright.expect(page.locator("main")).to_contain_text("serving")
        page.reload()
        playwright.expect(page.locator("main")).to_contain_text("serving")
        assert page.get_by_role("textbox", name="Control token").count() == 0
        page.context.close()
        process.communicate()
