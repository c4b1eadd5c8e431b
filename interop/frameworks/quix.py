"""quixstreams: counts by key, in a state with a changelog topic. Says how many records came out and the last counts."""

import json
import sys
import tempfile
import time
from typing import Any

from quixstreams import Application, State

RECORDS, KEYS = 700, 7
servers, guarantee = sys.argv[1:]


def application(group: str, folder: str) -> Application:
    return Application(
        broker_address=servers,
        consumer_group=f"{group}-{guarantee}",
        auto_offset_reset="earliest",
        processing_guarantee=guarantee,
        state_dir=folder,
        loglevel="WARNING",
    )


def counted(value: dict[str, Any], state: State) -> dict[str, Any]:
    count = state.get("count", 0) + 1
    state.set("count", count)
    return {"number": value["number"], "count": count}


def main() -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        counting = application("counting", first)
        source = counting.topic(f"numbers-{guarantee}", value_serializer="json", value_deserializer="json")
        counts = counting.topic(f"counts-{guarantee}", value_serializer="json", value_deserializer="json")
        with counting.get_producer() as producer:
            for number in range(RECORDS):
                message = source.serialize(key=f"k{number % KEYS}", value={"number": number})
                producer.produce(source.name, key=message.key, value=message.value)
        counting.dataframe(source).apply(counted, stateful=True).to_topic(counts)
        counting.run(count=RECORDS // 2, timeout=60)
        # Another one goes on where it has ended, with an empty folder: the changelog has the state.
        counting = application("counting", second)
        source = counting.topic(source.name, value_deserializer="json")
        counting.dataframe(source).apply(counted, stateful=True).to_topic(
            counting.topic(counts.name, value_serializer="json")
        )
        counting.run(count=RECORDS - RECORDS // 2, timeout=60)
        found = read(application("reading", first), counts.name)
    last = {key: value["count"] for key, value in found}
    print(json.dumps({"records": len(found), "last": sorted(last.values())}))


def read(reading: Application, topic: str) -> list[tuple[bytes, dict[str, Any]]]:
    found: list[tuple[bytes, dict[str, Any]]] = []
    with reading.get_consumer() as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while len(found) < RECORDS and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append((message.key(), json.loads(message.value())))
    return found


if __name__ == "__main__":
    main()
