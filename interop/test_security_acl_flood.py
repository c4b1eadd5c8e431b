"""A flood of ACLs: a hundred thousand are created, searched and deleted, and other clients are served meanwhile."""

from collections.abc import Iterator

import pytest

from interop.conftest import NewBroker
from interop.giants import Giant
from interop.processes import process_at, resident_mb
from interop.raw import RawClient, request_bytes
from interop.targets import Target
from interop.witness import Seen, Witness, send_giant
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest
from pykafka_broker.protocol.runtime import Message

pytestmark = pytest.mark.ours_only
TOPIC, LITERAL, READ, ALLOW, ANY = 2, 3, 3, 3, 1
AT_ONCE, MOST, ALL = 10_000, 65_000, 100_000
OTHERS_WAIT_S = 0.7  # to decode 65,000 creations and to write the refusals takes 0.22 s of a slow machine
PEAK_MB = 150
KEPT_MB = 250  # a hundred thousand ACLs, of as many users


@pytest.fixture
def broker(new_broker: NewBroker) -> Iterator[Target]:
    running = new_broker(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super_users="User:ANONYMOUS"
    )
    yield running
    assert "Traceback" not in running.log_path.read_text(errors="replace")


def acls(count: int, start: int = 0) -> CreateAclsRequest:
    return CreateAclsRequest(
        [AclCreation(TOPIC, f"topic-{n}", LITERAL, f"User:{n}", "*", READ, ALLOW) for n in range(start, start + count)]
    )


def sent(broker: Target, name: str, request: Message, elements: int) -> Seen:
    return send_giant(broker.bootstrap_servers, Giant(name, request_bytes(request, 3), elements))


def test_a_flood_is_refused_and_holds_nobody_up(broker: Target) -> None:
    filters = [DeleteAclsFilter(ANY, None, ANY, f"User:{n}", f"h{n}", ANY, ANY) for n in range(AT_ONCE)]
    for name, request in (("creations", acls(MOST)), ("filters", DeleteAclsRequest(filters))):
        seen = sent(broker, name, request, ALL)
        assert seen.end == "answered"
        assert seen.worst_s < OTHERS_WAIT_S, seen
        assert seen.peak_mb < PEAK_MB, seen


@pytest.mark.timeout(600)
def test_a_hundred_thousand_are_made_and_taken_and_others_are_served(broker: Target) -> None:
    process = process_at(broker.bootstrap_servers)
    before = resident_mb(process)
    waits = []
    with RawClient(broker.bootstrap_servers, 120) as client:
        for start in range(0, ALL, AT_ONCE):
            with Witness(broker.bootstrap_servers) as witness:
                answer = client.call(acls(AT_ONCE, start), 3)
            waits.append(max(witness.waits_s))
            assert not any(one.error_code for one in answer.results)
        assert resident_mb(process) - before < KEPT_MB
        with Witness(broker.bootstrap_servers) as witness:
            told = client.call(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY), 3)
        waits.append(max(witness.waits_s))
        assert sum(len(one.acls) for one in told.resources) == ALL
        with Witness(broker.bootstrap_servers) as witness:
            named = [DeleteAclsFilter(TOPIC, f"topic-{n}", LITERAL, None, None, ANY, ANY) for n in range(AT_ONCE)]
            gone = client.call(DeleteAclsRequest(named), 3)
        waits.append(max(witness.waits_s))
        assert sum(len(one.matching_acls) for one in gone.filter_results) == AT_ONCE
    assert max(waits) < OTHERS_WAIT_S, waits
