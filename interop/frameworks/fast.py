"""FastStream over aiokafka or confluent-kafka: one handler feeds another, the first one fails once."""

import asyncio
import importlib
import json
import sys

from faststream import AckPolicy

RECORDS = 22
servers, client = sys.argv[1:]
broker = importlib.import_module(f"faststream.{'kafka' if client == 'aiokafka' else 'confluent'}").KafkaBroker(
    servers, logger=None
)
failed: list[int] = []
doubled: list[int] = []


@broker.subscriber(f"in-{client}", group_id=client, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
@broker.publisher(f"out-{client}")
async def double(message: dict[str, int]) -> dict[str, int]:
    if message["number"] == 7 and not failed:
        failed.append(7)
        raise RuntimeError("once")
    return {"number": 2 * message["number"]}


@broker.subscriber(f"out-{client}", group_id=f"{client}-out", auto_offset_reset="earliest", batch=True)
async def collect(messages: list[dict[str, int]]) -> None:
    doubled.extend(message["number"] for message in messages)


async def main() -> None:
    await broker.start()
    for number in range(RECORDS - 2):
        await broker.publish({"number": number}, f"in-{client}", key=str(number).encode(), headers={"from": "test"})
    await broker.publish_batch({"number": RECORDS - 2}, {"number": RECORDS - 1}, topic=f"in-{client}")
    for _ in range(120):
        await asyncio.sleep(0.5)
        if len(set(doubled)) >= RECORDS:
            break
    print(json.dumps({"doubled": sorted(set(doubled)), "failed": failed, "ping": await broker.ping(60)}))
    await broker.stop()


asyncio.run(main())
