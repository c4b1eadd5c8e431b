"""kafka-transactions, where some are open, some have ended, and one hangs that no coordinator knows of."""

import re
import time

from confluent_kafka import Producer

from interop.raw import RawClient
from interop.tools.preparing import make_topics
from interop.tools.steps import QUICK, UNREACHABLE, Step
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.record import BatchRecord

SETTINGS = {
    "transaction.partition.verification.enable": "false",  # or nothing could hang
    "transaction.state.log.num.partitions": "3",
}


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"orders": 2, "items": 1, "stuck": 1, "empty": 1})
    for name, topics in (("shop", ["orders", "items"]), ("store", ["orders"]), ("done", ["items"])):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        for topic in topics:
            producer.produce(topic, b"v", partition=0)
        assert producer.flush(60) == 0
        if name == "done":
            producer.commit_transaction(20)
        del producer  # it leaves its transaction as it is
    _hang(bootstrap)


def _hang(bootstrap: str) -> None:
    with RawClient(bootstrap) as client:
        producer = client.call(InitProducerIdRequest(None, 60_000), 4)
        stale = int(time.time() * 1000) - 7_200_000
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        records = build_batch(
            [BatchRecord(0, stale, None, b"hanging")], **identity, base_sequence=0, transactional=True
        )
        data = TopicProduceData("stuck", partition_data=[PartitionProduceData(0, bytes(records))])
        answer = client.call(ProduceRequest("lost", -1, 5_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


_DURATION = re.compile(r"(?<=TIME )\d+$|(?<=TIME )\d+(?= )")


def _rows(out: str) -> str:
    """Sorted, without durations, and with partitions in order."""
    out = _DURATION.sub("N", out) if "Duration" in out else out
    lines = (line.rstrip().rpartition(" ") for line in out.splitlines())
    return "\n".join(sorted(before + space + ",".join(sorted(last.split(","))) for before, space, last in lines))


def _calls(*commands: str) -> list[Step]:
    return [Step("transactions", each, alike=_rows) for each in commands]


STEPS: list[Step] = _calls(
    "list",
    "list --transactional-id-pattern s.*",
    "list --transactional-id-pattern nothing",
    "list --transactional-id-pattern [",
    "list --duration-filter -1",
    "list --duration-filter 0",
    "list --duration-filter 600000",
    "list --duration-filter x",
    "list --duration-filter 1_0",
    "list --duration-filter 600000 --duration-filter -1",
    "list --duration -1",
    "list --duration-filter 600000 --transactional-id-pattern shop",
    "describe --transactional-id shop",
    "describe --transactional-id done",
    "describe --transactional-id nobody",
    "describe",
    "describe-producers --topic orders --partition 0",
    "describe-producers --topic items --partition 0",
    "describe-producers --topic items --partition 0 --broker-id 1",
    f"{QUICK} describe-producers --topic items --partition 0 --broker-id 7",
    "describe-producers --topic orders --partition 1",
    "describe-producers --topic empty --partition 0",
    f"{QUICK} describe-producers --topic empty --partition 9",
    f"{QUICK} describe-producers --topic nothing --partition 0",
    "describe-producers --topic orders",
    "describe-producers --partition 1",
    "describe-producers --topic orders --partition x",
    "find-hanging --broker-id 1",
    "find-hanging --broker-id 7",
    "find-hanging --topic stuck",
    "find-hanging --topic stuck --partition 0",
    "find-hanging --topic orders",
    "find-hanging --topic nothing",
    "find-hanging --topic stuck --max-transaction-timeout 200",
    "find-hanging --topic stuck --max-transaction-timeout 10",
    "find-hanging",
    "find-hanging --partition 0",
    "find-hanging --broker-id 1 --partition 0",
    "find-hanging --broker-id 1 --topic stuck --partition 0",
    "abort --topic stuck --partition 0 --start-offset 9",
    "abort --topic stuck --partition 0 --start-offset 0",
    "find-hanging --topic stuck",
    "abort --topic stuck --partition 0 --start-offset 0",
    f"{QUICK} abort --topic nothing --partition 0 --start-offset 0",
    "abort --topic orders --partition 0",
    "abort --topic orders --partition 0 --producer-id 1",
    "abort --topic orders --partition 0 --producer-id 1 --producer-epoch 0",
    "abort --topic orders --partition 0 --producer-id 7777 --producer-epoch 0 --coordinator-epoch 0",
    "abort --topic orders --partition 0 --start-offset 0 --producer-id 1",
    "abort --topic orders",
    "abort --partition 1",
    "forceTerminateTransaction --transactionalId shop",
    "forceTerminateTransaction --transactionalId shop",
    "forceTerminateTransaction --transactionalId nobody",
    "forceTerminateTransaction",
    "force-terminate",
    "",
    "list --odd",
    "{nowhere} list",
    f"{UNREACHABLE} list",
    f"{UNREACHABLE} describe --transactional-id x",
    f"{UNREACHABLE} describe-producers --topic x --partition 0",
    f"{UNREACHABLE} abort --topic x --partition 0 --start-offset 0",
    f"{UNREACHABLE} find-hanging --topic x",
    f"{UNREACHABLE} find-hanging --broker-id 1",
    f"{UNREACHABLE} forceTerminateTransaction --transactionalId x",
)
STEPS += [
    Step("transactions", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
STEPS += _calls(
    "lis",
    "desc --transactional-id shop",
    "describe --transactional shop",
    "l",
    "d",
    "nothing",
    "list --nothing",
    "list extra",
)
IN_OUR_WORDS = {
    "--command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' abort --topic nothing --partition 0 --start-offset 0",  # noqa: E501
    "--command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' describe-producers --topic empty --partition 9",  # noqa: E501
    "--command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' describe-producers --topic items --partition 0 --broker-id 7",  # noqa: E501
    "--command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' describe-producers --topic nothing --partition 0",  # noqa: E501
    "find-hanging --topic nothing",
    "list --transactional-id-pattern [",
    "{nowhere} --bootstrap-server localhost:1 --command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' find-hanging --broker-id 1",  # noqa: E501
    "{nowhere} --bootstrap-server localhost:1 --command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}' find-hanging --topic x",  # noqa: E501
    "{nowhere} list",
}
