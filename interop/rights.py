"""Each row of the table of rights (`tests/broker/rights.py`), played on a broker with the standard authorizer.

Rule: the client whose rights are looked at comes from an address of its own and is otherwise like the one who prepares
everything, so ACLs tell the two apart by their hosts, and no listener needs SASL. `python -m interop.rights` records
anew what a real Kafka answers.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.raw import Closed, RawClient
from interop.real_kafka import RealKafka
from interop.waiting import eventually
from pykafka_broker.cluster.authorizer import CLUSTER_NAME
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import ACL_RESOURCE_TYPES
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.runtime import Fields
from tests.broker.rights import TABLE, Asked, Right
from tests.broker.rights_world import SMALL, codes, made, make_world, prepare

RECORDED = Path(__file__).parent / "recorded_rights.json"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",  # until the first ACLs are there
}
CONFIG = {
    **SMALL,
    **AUTHORIZER,
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}
STRANGER = "127.0.0.2"  # the address of the client that has only the rights it is given
EVERYTHING, LITERAL, ALLOW, ANY = 2, 3, 3, 1
NAMES = {"t", "u", "g", "c", "s", "k", "x", "new", "newer", "c2", "s2", "s3", "k2"}
EARLY = {3, 14, 15, 16, 51, 100, 124}  # error codes of a broker that has not heard of everything yet
WAIT_S, EVERY_S = 60.0, 0.05
_TEXTS = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name", "user")


def acls_for_the_preparer() -> list[AclCreation]:
    """Return ACLs that allow the preparer everything; with them no resource is without an ACL."""
    return [
        AclCreation(kind, CLUSTER_NAME if kind == 4 else "*", LITERAL, *_client("127.0.0.1"), EVERYTHING, ALLOW)
        for kind in ACL_RESOURCE_TYPES
    ]


def _client(host: str) -> tuple[str, str]:
    return "User:ANONYMOUS", host


class World:
    """One row's topics, groups and transactions on a broker: their names begin with `prefix`."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self.prefix = prefix
        self._topic_ids: dict[str, bytes] = {}
        self._clients = {source: RawClient(bootstrap_servers, source=source) for source in ("127.0.0.1", STRANGER)}

    def ask(self, api_key: ApiKey, version: int, /, source: str = "127.0.0.1", **fields: Any) -> Any:
        request = made(SPECS[api_key].request_class(), self._named(fields), self._topic_ids.__getitem__)
        answer = self._clients[source].call(request, version)
        for topic in answer.topics if api_key is ApiKey.CREATE_TOPICS else ():
            self._topic_ids[topic.name] = bytes(topic.topic_id)
        return answer

    def _is_read(self, api_key: ApiKey, answer: Any) -> bool:
        """Return whether the group's member has what it reads: a coordinator hears late of new topics."""
        if api_key is ApiKey.CONSUMER_GROUP_HEARTBEAT and not answer.assignment.topic_partitions:
            self.ask(api_key, 0, group_id="c", member_id=answer.member_id, member_epoch=-1)
            return False
        if api_key is ApiKey.SHARE_GROUP_HEARTBEAT:
            member = self.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["s"]).groups[0].members[0]
            return bool(member.assignment.topic_partitions)
        return True

    def do(self, api_key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request that has to succeed; repeat it until the broker is ready for it."""
        until = time.monotonic() + WAIT_S
        while True:
            answer = self.ask(api_key, version, **fields)
            wrong = set(codes(answer)) - {0}
            if not wrong and self._is_read(api_key, answer):
                return answer
            assert wrong <= EARLY, answer
            assert time.monotonic() < until, answer
            time.sleep(EVERY_S)

    def grant(self, rights: Sequence[Right]) -> None:
        """Give the stranger these rights and no others."""
        mine = DeleteAclsFilter(ANY, None, ANY, *_client(STRANGER), ANY, ANY)
        self._clients["127.0.0.1"].call(DeleteAclsRequest([mine]), 3)
        acls = [
            AclCreation(kind, self._named(name), LITERAL, *_client(STRANGER), operation, ALLOW)
            for operation, kind, name in rights
        ]
        answer = self._clients["127.0.0.1"].call(CreateAclsRequest(acls), 3)
        assert not any(codes(answer)), answer
        wanted = {(acl.resource_type, acl.resource_name, acl.operation) for acl in acls}
        eventually(lambda: _granted(self._clients["127.0.0.1"], STRANGER), wanted)

    def answer(self, asked: Asked) -> list[str]:
        """Return the parts of the stranger's answer that are about rights."""
        try:
            answer = self.ask(asked.api_key, asked.version, source=STRANGER, **asked.fields)
        except Closed:
            return ["closed"]
        return sorted(told.replace(self.prefix, "") for told in _told(answer, self.prefix))

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._named(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._named(one) for one in value]
        return self.prefix + value if isinstance(value, str) and value in NAMES else value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()


def _granted(client: RawClient, host: str) -> set[tuple[int, str, int]]:
    """Return what the ACLs of a host are about: kinds and names of resources, and operations."""
    answer = client.call(DescribeAclsRequest(ANY, None, ANY, *_client(host), ANY, ANY), 3)
    return {(each.resource_type, each.resource_name, acl.operation) for each in answer.resources for acl in each.acls}


def _told(answer: Any, prefix: str, names: str = "") -> Iterator[str]:
    """Yield every error with the names that it is about, and the names of this row that come without one."""
    if isinstance(answer, list):
        for one in answer:
            if isinstance(one, Fields):
                yield from _told(one, prefix, names)
            elif isinstance(one, str) and one.startswith(prefix):
                yield one
        return
    mine = [value for name in _TEXTS if isinstance(value := getattr(answer, name, None), str) and value]
    here = "/".join([names, *mine] if names else mine)
    error = False
    for name in answer.__match_args__:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            error = True
            yield f"{here or 'whole'}: {value}"
        elif isinstance(value, list | Fields):
            yield from _told(value, prefix, here)
    if not error and any(name.startswith(prefix) for name in mine):
        yield here


def cases(asked: Asked) -> Iterator[tuple[str, list[Right]]]:
    """Yield the case with all rights, and a case without each right that is needed."""
    everything = [right for need in asked.needs for right in need.rights]
    yield "with every right", everything
    for need in asked.needs:
        words = " or ".join(f"{operation.name} on {kind.name} {name}" for operation, kind, name in need.rights)
        yield f"without {words}", [right for right in everything if right not in need.rights]


def rows() -> dict[str, Asked]:
    """Return the table's rows, by names of their own."""
    found: dict[str, Asked] = {}
    for asked in TABLE:
        same = sum(1 for name in found if name.partition(" ")[0] == str(asked))
        found[f"{asked} {same + 1}" if same else str(asked)] = asked
    return found


def played(bootstrap_servers: str, asked: Asked, prefix: str) -> dict[str, list[str]]:
    """Return what the row's client is told in each case, denials first: what it may do changes things."""
    found = {}
    for number, (case, rights) in enumerate(reversed([*cases(asked)])):
        with World(bootstrap_servers, f"{prefix}{number}-") as world:
            make_world(world.do)
            prepare(world.ask, asked, wait_ms=500)  # Kafka reads the group's state meanwhile
            world.grant(rights)
            found[case] = world.answer(asked)
    return found


def open_up(bootstrap_servers: str) -> None:
    """Let only the preparer do anything from now on."""
    with RawClient(bootstrap_servers) as client:
        acls = acls_for_the_preparer()
        answer = client.call(CreateAclsRequest(acls), 3)
        assert not any(codes(answer)), answer
        # Kafka's broker hears of ACLs a little later.
        eventually(lambda: len(_granted(client, "127.0.0.1")), len(acls))


def main() -> None:
    with RealKafka(CONFIG) as kafka:
        open_up(kafka.bootstrap_servers)
        table = {
            name: played(kafka.bootstrap_servers, asked, f"r{number}-")
            for number, (name, asked) in enumerate(rows().items())
        }
    RECORDED.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
