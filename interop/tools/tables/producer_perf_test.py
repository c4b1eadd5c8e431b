"""kafka-producer-perf-test: numbers are compared as shapes."""

import re

from interop.tools.preparing import make_topics
from interop.tools.steps import Step


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"p": 1, "in-turn": 1, "by-chance": 1})


def shapes(out: str) -> str:
    """Measured figures aside; how many records there were stays."""
    out = re.sub(r"(?<=payloads from: )/.*\.txt", "FILE", out)
    lines = [each for each in out.splitlines() if not re.match(r"[\w.-]+-metrics|[\w.-]+:[\w.-]+:", each)]
    return re.sub(r"(?<=[ (])-?\d+(\.\d+)?(?= (records/sec|MB/sec|ms))", "N", re.sub(r" +", " ", "\n".join(lines)))


def _keys(out: str) -> str:
    """Values are other random letters."""
    return "\n".join(line.partition("\t")[0].partition(" ")[0] for line in out.splitlines())


_SOON = "--command-property max.block.ms=100"
_COMMANDS = [
    "--num-records 100 --record-size 100 --throughput -1",
    "--num-records 100 --payload-monotonic --throughput -1",
    "--num-records 50 --record-size 10 --throughput 1000",
    "--num-records 100 --record-size 10 --throughput -1 --warmup-records 20",
    "--num-records 10 --record-size 10 --throughput -1 --print-metrics",
    "--num-records 10 --record-size 10 --throughput -1 --transactional-id x --transaction-duration-ms 10",
    "--num-records 10 --record-size 10 --throughput -1 --transaction-duration-ms 100",
    "--num-records 3 --record-size 5 --throughput -1 --command-property acks=1 linger.ms=3",
    "--num-records 3 --record-size 5 --throughput -1 --producer-props acks=1",
    "--num-records 3 --record-size 5 --throughput -1 --producer.config '{file:acks=1}'",
    "--num-records 3 --record-size 5 --throughput -1 --command-config '{file:compression.type=zstd}'",
    "--num-records 3 --record-size 5 --throughput -1 --reporting-interval 1000",
    "--num-records 3 --payload-file '{file:one\\ntwo\\n}' --throughput -1",
    "--num-records 3 --payload-file '{file:one,two}' --payload-delimiter , --throughput -1",
    "--num-records 3 --payload-file /no/such --throughput -1",
    "--num-records 9 --record-size 5 --throughput -1 --key-distribution range --record-key-range 4",
    "--num-records 9 --record-size 5 --throughput -1 --key-distribution random --record-key-range 4 --random-seed 7",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution none",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution none --record-key-range 4",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution range",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution RANGE --record-key-range 4",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution zipf --record-key-range 4",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution range --record-key-range 0",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution range --record-key-range x",
    "--num-records 3 --record-size 5 --throughput -1 --key-distribution range --record-key-range 9223372036854775808",
    "--num-records 3 --record-size 5 --throughput -1 --record-key-range 4",
    "--num-records 3 --record-size 5 --throughput -1 --random-seed 7",
    "--num-records 3 --record-size 5 --throughput -1 --random-seed x",
    "--num-records 3 --throughput -1",
    "--num-records 3 --record-size 5",
    "--record-size 5 --throughput -1",
    "--num-records 0 --record-size 5 --throughput -1",
    "--num-records 3 --record-size 0 --throughput -1",
    "--num-records x --record-size 5 --throughput -1",
    "--num-records 1_0 --record-size 5 --throughput -1",
    "--num-records 99999999999999999999 --record-size 5 --throughput -1",
    "--num-records 3 --record-size 5 --throughput inf",
    "--num-records 3 --num-records 4 --record-size 5 --throughput -1",
    "--num-records 3 --record-size 5 --payload-monotonic --throughput -1",
    "--num-records 3 --record-size 5 --throughput -1 --warmup-records 9",
    "--num-records 3 --record-size 5 --throughput -1 --transaction-duration-ms 0",
    "--num-records 3 --record-size 5 --throughput -1 --reporting-interval 0",
    "--num-records 3 --record-size 5 --throughput -1 --command-property acks=1 --producer-props acks=1",
    "--num-records 3 --record-size 5 --throughput -1 --command-property acks=2",
    "--num-records 3 --record-size 5 --throughput -1 --command-config /no/such/file",
    "--num-records 3 --record-size 5 --throughput -1 --no-such-flag",
    "{nowhere} --num-records 3 --record-size 5 --throughput -1",
    "{nowhere} --bootstrap-server localhost:1 --num-records 3 --record-size 5 --throughput -1 " + _SOON,
]
STEPS = [Step("producer-perf-test", f"--topic p {each}", alike=shapes) for each in _COMMANDS]
_KEYED = "--num-records 9 --record-size 5 --throughput -1 --record-key-range"
_SHOWN = "--from-beginning --max-messages 9 --timeout-ms 20000 --formatter-property print.key=true"
STEPS += [
    Step("producer-perf-test", f"--topic in-turn {_KEYED} 4 --key-distribution range", alike=shapes),
    Step("console-consumer", f"--topic in-turn {_SHOWN}", alike=_keys),
    Step("producer-perf-test", f"--topic by-chance {_KEYED} 1 --key-distribution random", alike=shapes),
    Step("console-consumer", f"--topic by-chance {_SHOWN}", alike=_keys),
]
STEPS.append(Step("producer-perf-test", "--num-records 3 --record-size 5 --throughput -1"))
STEPS += [Step("producer-perf-test", each) for each in ("--",)]
IN_OUR_WORDS = {
    "--",
    "--topic p --num-records 0 --record-size 5 --throughput -1",
    "--topic p --num-records 3 --record-size 0 --throughput -1",
    "--topic p --num-records 3 --record-size 5 --payload-monotonic --throughput -1",
    "--topic p --num-records 3 --record-size 5 --throughput -1 --command-property acks=1 --producer-props acks=1",
    "--topic p --num-records 3 --record-size 5 --throughput -1 --reporting-interval 0",
    "--topic p --num-records 3 --record-size 5 --throughput -1 --transaction-duration-ms 0",
    "--topic p --num-records 3 --record-size 5 --throughput -1 --warmup-records 9",
    *(
        f"--topic p --num-records 3 --record-size 5 --throughput -1 {keys}"
        for keys in (
            "--key-distribution RANGE --record-key-range 4",
            "--key-distribution none --record-key-range 4",
            "--key-distribution range",
            "--key-distribution zipf --record-key-range 4",
            "--record-key-range 4",
        )
    ),
    "--topic p --num-records 3 --throughput -1",
    "--topic p {nowhere} --num-records 3 --record-size 5 --throughput -1",
}
