"""The table in docs/faults.md: the outcome of each fault for each client.

    python -m interop.fault_table        writes it anew (needs Kafka's jars for the Java client, Go and Node.js)

Rule: a cell states the outcome by the broker's records and the client's own words, without guesses.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from interop.fault_clients import Client, Reader, clients
from interop.fault_programs import StepFailed, franz_go, kafkajs
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.traffic import Fault

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
BEGIN, END = "<!-- table of clients: python -m interop.fault_table -->", "<!-- end of the table -->"
NUMBER = count()
PATIENCE_S = 30.0


class Row(NamedTuple):
    """A fault; `at` is when a reader meets it: while it joins, while it reads, or at a commit."""

    says: str
    fault: dict[str, Any]
    at: str


def of_error(api: str, error: str, times: int = 1, **more: Any) -> Row:
    told = f"{error}{' after the effect' if more.get('applied') else ''}"
    return Row(f"{api}: {told}", {"api": api, "error": error, "times": times, **more}, _when(api))


def _when(api: str) -> str:
    return {"Produce": "send", "InitProducerId": "send", "OffsetCommit": "commit"}.get(
        api, "join" if api in ("JoinGroup", "SyncGroup", "FindCoordinator", "OffsetFetch", "ListOffsets") else "read"
    )


ROWS = [
    of_error("Produce", "NOT_LEADER_OR_FOLLOWER", 2),
    of_error("Produce", "NOT_ENOUGH_REPLICAS", 2),
    of_error("Produce", "REQUEST_TIMED_OUT", applied=True),
    of_error("Produce", "TOPIC_AUTHORIZATION_FAILED"),
    of_error("Produce", "MESSAGE_TOO_LARGE"),
    Row("Produce: connection dropped before the effect", {"api": "Produce", "drop": "before", "times": 1}, "send"),
    Row("Produce: connection dropped after the effect", {"api": "Produce", "drop": "after", "times": 1}, "send"),
    Row("Produce: half an answer", {"api": "Produce", "cut": True, "times": 1}, "send"),
    Row("Produce: answer 300 ms late", {"api": "Produce", "delay_ms": 300, "times": 1}, "send"),
    of_error("Fetch", "NOT_LEADER_OR_FOLLOWER", 2),
    of_error("Fetch", "OFFSET_OUT_OF_RANGE"),
    of_error("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
    Row("Fetch: a batch with a wrong CRC", {"api": "Fetch", "corrupt": True, "times": 1}, "read"),
    Row("Fetch: connection dropped", {"api": "Fetch", "drop": "before", "times": 1}, "read"),
    Row("Fetch: half an answer", {"api": "Fetch", "cut": True, "times": 1}, "read"),
    of_error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 2),
    of_error("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", 2),
    of_error("SyncGroup", "REBALANCE_IN_PROGRESS"),
    of_error("Heartbeat", "UNKNOWN_MEMBER_ID"),
    of_error("Heartbeat", "NOT_COORDINATOR"),
    of_error("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2),
    of_error("OffsetCommit", "ILLEGAL_GENERATION"),
]


def outcome(broker: KafkaBroker, client: Client, row: Row) -> str:
    """Return in a few words how the client copes with the fault."""
    topic = f"fault-{next(NUMBER)}"
    broker.create_topic(topic)
    broker.faults.clear()
    try:
        if row.at == "send":
            return _sent(broker, client, row, topic)
        return _read(broker, client, row, topic)
    finally:
        broker.faults.clear()


def usual_outcome(broker: KafkaBroker, client: Client, row: Row, usual: str) -> str:
    """Return the outcome; try once more if it is not the usual one and the fault meets a reader.

    On a busy machine a reader may be between two fetches just when the fault comes.
    """
    with contextlib.suppress(AssertionError):
        told = outcome(broker, client, row)
        if told == usual or row.at != "read":
            return told
    return outcome(broker, client, row)


def _added(broker: KafkaBroker, row: Row, topic: str) -> Fault:
    """Add the fault for this client alone, as an earlier client may still be connected.

    The client's group has the name of its topic.
    """
    where: dict[str, Any] = {"topic": topic} if row.fault["api"] in ("Produce", "Fetch") else {"group": topic}
    return broker.faults.add(**where, **row.fault)


def _sent(broker: KafkaBroker, client: Client, row: Row, topic: str) -> str:
    fault = _added(broker, row, topic)
    told = ""
    try:
        client.send(broker.bootstrap_servers, topic, "one")
    except Exception as error:
        told = f"fails: {name_of(error)}"
    assert fault.hits == row.fault["times"], f"{client.name} has met it {fault.hits} times"
    written = len(broker.records(topic))
    if told:
        return told if not written else f"{told}, though it is written"
    return "delivered" if written == 1 else f"delivered {written} times"


def _read(broker: KafkaBroker, client: Client, row: Row, topic: str) -> str:
    broker.produce(topic, ["one"])
    fault = _added(broker, row, topic) if row.at == "join" else None
    reader = client.reader(broker.bootstrap_servers, topic, topic)
    try:
        first = reader.read(PATIENCE_S)
        assert first == "one", f"{client.name} has read {first}"
        if fault is None:
            return _going_on(broker, client, row, topic, reader)
        assert fault.hits == row.fault["times"], f"{client.name} has met it {fault.hits} times"
        return "goes on"
    except AssertionError:
        raise
    except Exception as error:
        return f"fails: {name_of(error)}"
    finally:
        broker.faults.clear()
        with contextlib.suppress(Exception, asyncio.CancelledError):  # errors while a client closes do not matter here
            reader.close()


def _going_on(broker: KafkaBroker, client: Client, row: Row, topic: str, reader: Reader) -> str:
    if row.at != "commit":
        reader.commit()
    fault = _added(broker, row, topic)
    if row.at == "commit":
        reader.commit()
    broker.produce(topic, ["two"])
    got = reader.read(PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    meanwhile = []
    while fault.hits < row.fault["times"] and time.monotonic() < deadline:
        meanwhile.append(reader.read(1.0))  # kafka-python forgets an assignment that outlasts a poll
    assert fault.hits == row.fault["times"], f"{client.name} has met it {fault.hits} times"
    if got == "one":
        return "reads again from the start" if reader.read(PATIENCE_S) == "two" else "is lost"
    if got is None:
        return "reads nothing more"
    broker.produce(topic, ["three"])
    following = reader.read(PATIENCE_S) if "two" not in meanwhile else "two"
    return {"three": "goes on", "two": "reads some again"}.get(following or "", f"reads {following}")


def name_of(error: Exception) -> str:
    """Return the client's own name of an error."""
    text = str(error)
    if isinstance(error, StepFailed):
        return text
    found = re.search(r"org\.apache\.kafka\.[\w.]*?(\w+Exception)|code=(\w+)", text)
    cause = next((each for each in (found.groups() if found else ()) if each), None)
    return cause or type(error).__name__


def table(broker: KafkaBroker, all_clients: list[Client]) -> str:
    lines = ["| fault | " + " | ".join(each.name for each in all_clients) + " |"]
    lines.append("|" + "---|" * (len(all_clients) + 1))
    for row in ROWS:
        times = f" (x{row.fault['times']})" if row.fault["times"] > 1 else ""
        cells = []
        for client in all_clients:
            try:
                cells.append(outcome(broker, client, row))
            except AssertionError as error:
                cells.append(f"? {error}")
            print(row.says, client.name, cells[-1], flush=True)
        lines.append(f"| {row.says}{times} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def recorded() -> dict[tuple[str, str], str]:
    """Return the cells of the table in docs/faults.md, by fault and client."""
    text = PAGE.read_text()
    head, _, *lines = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()
    names = [each.strip() for each in head.strip("|").split("|")][1:]
    found = {}
    for line in lines:
        says, *cells = (each.strip() for each in line.strip("|").split("|"))
        for name, cell in zip(names, cells, strict=True):
            found[re.sub(r" \(x\d+\)$", "", says), name] = cell
    return found


def main() -> None:
    with KafkaBroker() as broker, clients() as of_python_and_java:
        made = table(broker, [*of_python_and_java, franz_go(), kafkajs()])
    text = PAGE.read_text()
    PAGE.write_text(f"{text[: text.index(BEGIN)]}{BEGIN}\n{made}\n{text[text.index(END) :]}")


if __name__ == "__main__":
    main()
