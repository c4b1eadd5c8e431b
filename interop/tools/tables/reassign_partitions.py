"""kafka-reassign-partitions, on three brokers."""

import re

from interop.raw import RawClient
from interop.tools.steps import UNREACHABLE, Step, sorted_lines
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

BROKERS = 3
_TOPICS = {"orders": [[1, 2], [2, 3], [3, 1]], "items": [[1], [2]]}


def prepare(bootstrap: str) -> None:
    with RawClient(bootstrap.partition(",")[0]) as client:
        topics = [
            CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(n, each) for n, each in enumerate(places)])
            for name, places in _TOPICS.items()
        ]
        made = client.call(CreateTopicsRequest(topics, 20_000), 5)
        assert not any(each.error_code for each in made.topics), made


_TRACE = re.compile(r"^\s*(at |\.\.\. \d+ more|Caused by|java\.|joptsimple\.|org\.apache).*$", re.MULTILINE)
_PROPOSED = re.compile(r"(?<=Proposed partition reassignment configuration\n)\{.*")
_UNPARSED = re.compile(r"(?<=Error: )(Unrecognized token|The input string is not).*")


def _lines(out: str) -> str:
    """Without paths, without the proposal, in which chance has a part, and without stack traces."""
    out = _PROPOSED.sub("PROPOSAL", _UNPARSED.sub("no JSON", _TRACE.sub("", out)))
    out = re.sub(r"/[^\s\"]*/(broker-\d+/data-\d+)", r"\1", out)
    found = []
    for line in out.splitlines():
        before, between, last = line.rpartition(" topics ")
        found.append(before + between + ",".join(sorted(last.split(","))) if between else line)
    return "\n".join(found)


def _place(topic: str, partition: int, replicas: str, more: str = "") -> str:
    return f'{{"topic":"{topic}","partition":{partition},"replicas":[{replicas}]{more}}}'


def _file(*places: str, version: str = ',"version":1') -> str:
    return f"'{{file:{{\"partitions\":[{','.join(places)}]{version}}}}}'"


def _topics(*names: str) -> str:
    listed = ",".join(f'{{"topic":"{name}"}}' for name in names)
    return f'\'{{file:{{"topics":[{listed}],"version":1}}}}\''


_SWAPPED = _file(_place("orders", 0, "2,1"), _place("orders", 1, "3,2"))
_SAME = _file(_place("orders", 0, "2,1"), _place("items", 0, "1"))
_MOVED = _file(_place("items", 0, "3"), _place("items", 1, "3"))
_GROWN = _file(_place("items", 0, "3,1"))
_UNKNOWN = _file(_place("nothing", 0, "1"), _place("orders", 9, "1"))
_NO_BROKER = _file(_place("items", 0, "1,9"))
_ALONE = _file(_place("items", 0, "1"))
_THERE = _file(_place("items", 0, "1", ',"log_dirs":["/no/such/dir"]'))
_NO_DIR = _file(_place("items", 0, "3,1", ',"log_dirs":["any","/no/such/dir"]'))

STEPS: list[Step] = [
    Step("reassign-partitions", command, alike=_lines)
    for command in (
        "--list",
        f"--generate --topics-to-move-json-file {_topics('orders')} --broker-list 1,2,3",
        f"--generate --topics-to-move-json-file {_topics('items', 'orders')} --broker-list 1,2 --disable-rack-aware",
        f"--generate --topics-to-move-json-file {_topics('orders')} --broker-list 1",
        f"--generate --topics-to-move-json-file {_topics('orders')} --broker-list 1,9",
        f"--generate --topics-to-move-json-file {_topics('nothing')} --broker-list 1,2",
        f"--generate --topics-to-move-json-file {_topics('orders', 'orders')} --broker-list 1,2",
        f"--generate --topics-to-move-json-file {_topics('orders')} --broker-list 1,1",
        f"--generate --topics-to-move-json-file {_topics('orders')} --broker-list x",
        f"--generate --topics-to-move-json-file {_topics('orders')}",
        "--generate --broker-list 1,2",
        "--generate --topics-to-move-json-file '{file:nonsense}' --broker-list 1,2",
        "--generate --topics-to-move-json-file /no/such/file --broker-list 1,2",
        f"--execute --reassignment-json-file {_SAME}",
        f"--verify --reassignment-json-file {_SAME}",
        f"--execute --reassignment-json-file {_SWAPPED} --throttle 10000000",
        f"--verify --reassignment-json-file {_SWAPPED} --preserve-throttles",
        f"--verify --reassignment-json-file {_SWAPPED}",
        f"--execute --reassignment-json-file {_ALONE} --throttle 500",
        f"--verify --reassignment-json-file {_ALONE}",
        f"--verify --reassignment-json-file {_file(_place('items', 0, '2'))}",
        f"--verify --reassignment-json-file {_MOVED} --preserve-throttles",
        f"--execute --reassignment-json-file {_GROWN} --disallow-replication-factor-change",
        f"--execute --reassignment-json-file {_NO_BROKER}",
        f"--execute --reassignment-json-file {_UNKNOWN}",
        f"--verify --reassignment-json-file {_THERE} --preserve-throttles",
        f"--verify --reassignment-json-file {_UNKNOWN} --preserve-throttles",
        f"--verify --reassignment-json-file {_UNKNOWN}",
        f"--cancel --reassignment-json-file {_SWAPPED}",
        f"--cancel --reassignment-json-file {_SWAPPED} --preserve-throttles",
        f"--cancel --reassignment-json-file {_UNKNOWN}",
        f"--execute --reassignment-json-file {_ALONE} --additional",
        f"--execute --reassignment-json-file {_file(_place('items', 0, '1,1'))}",
        f"--execute --reassignment-json-file {_file(_place('items', 0, ''))}",
        f"--execute --reassignment-json-file {_file(_place('items', 0, '1'), _place('items', 0, '1'))}",
        f"--execute --reassignment-json-file {_file()}",
        f"--execute --reassignment-json-file {_file(_place('items', 0, '1'), version='')}",
        '--execute --reassignment-json-file \'{file:{"partitions":[],"version":7}}\'',
        "--execute --reassignment-json-file '{file:{}}'",
        "--execute --reassignment-json-file '{file:nonsense}'",
        "--execute --reassignment-json-file /no/such/file",
        f"--verify --reassignment-json-file {_file()}",
        f"--cancel --reassignment-json-file {_file()}",
        f"--execute --reassignment-json-file {_ALONE} --replica-alter-log-dirs-throttle 1000000 --throttle 7000",
        "--execute",
        "--verify",
        "--cancel",
        "",
        "--execute --list",
        f"--execute --reassignment-json-file {_SAME} --throttle x",
        f"--execute --reassignment-json-file {_SAME} --broker-list 1",
        f"--verify --reassignment-json-file {_SAME} --throttle 5000",
        f"--verify --reassignment-json-file {_SAME} --additional",
        f"--cancel --reassignment-json-file {_SAME} --timeout 5",
        f"--list --reassignment-json-file {_SAME}",
        "--list --odd",
        "{nowhere} --list",
        "{nowhere} --bootstrap-controller {bootstrap} --list",
        f"{{nowhere}} --bootstrap-controller {{bootstrap}} --execute --reassignment-json-file {_SAME}",
        f"{{nowhere}} --bootstrap-controller {{bootstrap}} --verify --reassignment-json-file {_SAME}",
        "{nowhere} --bootstrap-controller {bootstrap} --bootstrap-server {bootstrap} --list",
        f"{UNREACHABLE} --list",
        f"{UNREACHABLE} --verify --reassignment-json-file {_SAME}",
        f"{UNREACHABLE} --execute --reassignment-json-file {_SAME}",
        f"{UNREACHABLE} --cancel --reassignment-json-file {_SAME}",
        f"{UNREACHABLE} --generate --topics-to-move-json-file {_topics('orders')} --broker-list 1",
    )
] + [
    Step("reassign-partitions", f"--execute --reassignment-json-file {_NO_DIR} --timeout 1000", alike=_lines),
]
_AWAY = _file(_place("items", 0, "3"), _place("items", 1, "2,3"))
_BACK = _file(_place("items", 0, "1"), _place("items", 1, "2"))
_ORDERS_BACK = _file(_place("orders", 0, "1,2"), _place("orders", 1, "2,3"), _place("orders", 2, "3,1"))
_SHOWN = [
    Step("configs", f"--describe --entity-type {kind} --entity-name {name}", alike=sorted_lines)
    for kind, name in (("topics", "items"), ("topics", "orders"), ("brokers", "1"), ("brokers", "2"), ("brokers", "3"))
]


def _later(*commands: str) -> list[Step]:
    """Each after what has moved is surely there."""
    return [Step("reassign-partitions", each, alike=_lines, after_moves=True) for each in commands]


STEPS += [
    *_later(f"--execute --reassignment-json-file {_AWAY} --throttle 10000000"),
    *_SHOWN,
    *_later(f"--verify --reassignment-json-file {_AWAY} --preserve-throttles"),
    *_SHOWN[:1],
    *_later(f"--verify --reassignment-json-file {_AWAY}"),
    *_SHOWN,
    *_later(f"--execute --reassignment-json-file {_ORDERS_BACK} --throttle 1 --replica-alter-log-dirs-throttle 5"),
    *_SHOWN,
    *_later(f"--execute --reassignment-json-file {_BACK} --throttle 900 --additional"),
    *_SHOWN,
    *_later(
        f"--execute --reassignment-json-file {_BACK} --throttle 2000",
        f"--cancel --reassignment-json-file {_BACK}",
        "--list",
    ),
    *_SHOWN[:3],
    *_later(
        f"--execute --reassignment-json-file {_AWAY} --throttle 0",
        f"--execute --reassignment-json-file {_AWAY} --throttle -5",
        f"--execute --reassignment-json-file {_AWAY} --throttle -1",
        f"--execute --reassignment-json-file {_AWAY} --replica-alter-log-dirs-throttle x",
        f"--execute --reassignment-json-file {_AWAY} --timeout x",
        f"--execute --reassignment-json-file {_file(_place('items', 5, '1'))} --throttle 100",
        f"--execute --reassignment-json-file {_file(_place('items', 0, '9'))} --throttle 100",
        f"--execute --reassignment-json-file {_file(_place('nothing', 0, '1'))} --throttle 100",
        f"--verify --reassignment-json-file {_AWAY}",
        "--list --list",
        "--list extra",
        "--reassignment-json-file",
    ),
    *_SHOWN,
]
IN_OUR_WORDS = {
    '--execute --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\' --broker-list 1',  # noqa: E501
    '--list --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\'',  # noqa: E501
    '--verify --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\' --additional',  # noqa: E501
    '--verify --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\' --throttle 5000',  # noqa: E501
    "{nowhere} --bootstrap-controller {bootstrap} --bootstrap-server {bootstrap} --list",
    '{nowhere} --bootstrap-controller {bootstrap} --execute --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\'',  # noqa: E501
    '{nowhere} --bootstrap-controller {bootstrap} --verify --reassignment-json-file \'{file:{"partitions":[{"topic":"orders","partition":0,"replicas":[2,1]},{"topic":"items","partition":0,"replicas":[1]}],"version":1}}\'',  # noqa: E501
    "{nowhere} --list",
}
