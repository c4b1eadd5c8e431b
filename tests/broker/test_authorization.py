"""Every API asks for the rights that Kafka asks for, and answers as Kafka does where one is missing (rights.py)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, NOT_ASKED, AllowAll, Authorizer
from pykafka_broker.cluster.controller import ConfigAlteration, TopicCreation
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.incremental_alter_configs_request import AlterConfigsResource
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequestTopics
from pykafka_broker.protocol.runtime import ZERO_UUID, Fields
from tests.broker.api.real_broker import HOST, RealBroker
from tests.broker.rights import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    LEFT_OUT,
    NEXT_TABLE,
    NOTHING_TO_ASK,
    TABLE,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Asked,
    Need,
    Right,
)
from tests.broker.rights_page import PAGE, page
from tests.broker.rights_world import SMALL, codes, made, make_world, prepare

DENIALS = {TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED}
NO_TOPIC = b"\1" * 16
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER


class Denies:
    """An authorizer that allows all but the given rights."""

    def __init__(self, *denied: Right) -> None:
        self.denied = denied

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        assert (principal, host) == ("User:ANONYMOUS", HOST)
        return (operation, resource, name) not in self.denied

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return (operation, resource) not in [right[:2] for right in self.denied]

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return "Denies"


def authorized_by(node: RealBroker, authorizer: Authorizer) -> None:
    node.broker.services.authorize_by(authorizer)
    node.broker.metadata.controller.authorizer = authorizer
    node.broker.image.generation += 1  # rights are metadata: what was answered before counts no more


def ask(node: RealBroker, api_key: ApiKey, version: int, **fields: Any) -> Any:
    def topic_id(name: str) -> bytes:
        return node.broker.image.topic_id(name) or NO_TOPIC  # it has been deleted

    return node.call(made(SPECS[api_key].request_class(), fields, topic_id), version)


def texts(answer: Any) -> Iterator[str]:
    """Yield every text in an answer."""
    if isinstance(answer, str):
        yield answer
    for one in answer if isinstance(answer, list) else ():
        yield from texts(one)
    for name in answer.__match_args__ if isinstance(answer, Fields) else ():
        yield from texts(getattr(answer, name))


@pytest.fixture
def node(tmp_path: Path) -> RealBroker:
    """A broker with everything that the table's names stand for."""
    node = RealBroker(tmp_path, **SMALL)

    def do(api_key: ApiKey, version: int, /, **fields: Any) -> Any:
        answer = ask(node, api_key, version, **fields)
        assert not any(codes(answer)), answer
        return answer

    make_world(do)
    return node


MISSING = [
    pytest.param(asked, need, id=f"{asked}-{'-'.join(f'{right[0].name}_{right[1].name}' for right in need.rights)}")
    for asked in TABLE
    for need in asked.needs
]


def test_every_api_is_in_the_table_or_says_why_not() -> None:
    assert {asked.api_key for asked in (*TABLE, *NEXT_TABLE)} | set(NOTHING_TO_ASK) == set(ROUTES)
    assert not {asked.api_key for asked in TABLE} & set(NOTHING_TO_ASK)


def test_the_page_of_rights_is_made_from_the_table() -> None:
    assert PAGE.read_text() == page(), "python -m tests.broker.rights_page"


@pytest.mark.parametrize("asked", TABLE, ids=str)
def test_who_has_every_right_is_denied_nothing(node: RealBroker, asked: Asked) -> None:
    authorized_by(node, Denies())
    prepare(partial(ask, node), asked)
    assert not DENIALS & set(codes(ask(node, asked.api_key, asked.version, **asked.fields)))


@pytest.mark.parametrize(("asked", "need"), MISSING)
def test_who_lacks_a_right_is_told_so_or_sees_nothing(node: RealBroker, asked: Asked, need: Need) -> None:
    name = need.rights[-1][2]
    prepare(partial(ask, node), asked)
    if need.error is LEFT_OUT:
        assert name in texts(ask(node, asked.api_key, asked.version, **asked.fields))
    authorized_by(node, Denies(*need.rights))
    answer = ask(node, asked.api_key, asked.version, **asked.fields)
    if need.error is LEFT_OUT:
        assert name not in texts(answer)
        assert not DENIALS & set(codes(answer))
    else:
        assert DENIALS & set(codes(answer)) == {need.error}


@pytest.mark.parametrize("asked", NEXT_TABLE, ids=str)
def test_an_api_of_the_next_release_asks_for_its_right(tmp_path: Path, asked: Asked) -> None:
    node = RealBroker(tmp_path, **SMALL, **{"pykafka.emulate": "4.4"})
    assert not DENIALS & set(codes(ask(node, asked.api_key, asked.version, **asked.fields)))
    [need] = asked.needs
    authorized_by(node, Denies(*need.rights))
    assert set(codes(ask(node, asked.api_key, asked.version, **asked.fields))) == {need.error}


@pytest.mark.parametrize(("asked", "need"), [one for one in MISSING if len(one.values[1].rights) > 1])  # type: ignore[union-attr]
def test_one_of_several_rights_will_do(node: RealBroker, asked: Asked, need: Need) -> None:
    for right in need.rights:
        authorized_by(node, Denies(right))
        answer = ask(node, asked.api_key, asked.version, **asked.fields)
        assert need.error not in list(codes(answer)), right
        authorized_by(node, AllowAll())


@pytest.mark.parametrize(
    ("api_key", "fields"),
    [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, {"rebalance_timeout_ms": 1000, "topic_partitions": []}),
        (ApiKey.SHARE_GROUP_HEARTBEAT, {"member_id": "m"}),
        (ApiKey.STREAMS_GROUP_HEARTBEAT, {"member_id": "m"}),
    ],
)
def test_a_member_without_the_right_is_told_so_also_without_a_coordinator(
    tmp_path: Path, api_key: ApiKey, fields: dict[str, Any]
) -> None:
    node = RealBroker(tmp_path, **SMALL)
    asking = partial(ask, node, api_key, 1 if api_key is ApiKey.SHARE_GROUP_HEARTBEAT else 0, group_id="g", **fields)
    assert asking().error_code == ErrorCode.NOT_COORDINATOR
    authorized_by(node, Denies((AclOperation.READ, GROUP, "g")))
    assert asking().error_code == GROUP_DENIED


@pytest.mark.parametrize("asked", [one for one in TABLE if "'u'" in str(one.fields)], ids=str)
def test_a_topic_that_is_denied_leaves_the_others_alone(node: RealBroker, asked: Asked) -> None:
    authorized_by(node, Denies(*asked.needs[-1].rights))
    told = list(codes(ask(node, asked.api_key, asked.version, **asked.fields)))
    assert 0 < told.count(TOPIC_DENIED) < len(told)


def test_authorized_operations_are_what_the_authorizer_allows(node: RealBroker) -> None:
    def shown() -> tuple[int, int, int, int]:
        topics = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}]).topics
        described = {"include_authorized_operations": True}
        groups = ask(node, ApiKey.DESCRIBE_GROUPS, 5, groups=["g"], **described).groups
        consumers = ask(node, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["c"], **described).groups
        cluster = ask(node, ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
        return (
            topics[0].topic_authorized_operations,
            groups[0].authorized_operations,
            consumers[0].authorized_operations,
            cluster.cluster_authorized_operations,
        )

    whole = shown()
    assert whole == (0b1101_1111_1000, 0b1101_0100_1000, 0b1101_0100_1000, 0b1_1111_1010_0000)
    authorized_by(
        node,
        Denies(
            (AclOperation.WRITE, TOPIC, "t"),
            (AclOperation.DELETE, GROUP, "g"),
            (AclOperation.READ, GROUP, "c"),
            (AclOperation.CREATE, CLUSTER, CLUSTER_NAME),
        ),
    )
    assert [before - after for before, after in zip(whole, shown(), strict=True)] == [1 << 4, 1 << 6, 1 << 3, 1 << 5]


def test_operations_that_nobody_asked_for_are_not_told(node: RealBroker) -> None:
    assert ask(node, ApiKey.DESCRIBE_CLUSTER, 1).cluster_authorized_operations == NOT_ASKED
    assert ask(node, ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups[0].authorized_operations == NOT_ASKED


def test_who_may_not_describe_the_cluster_sees_brokers_and_no_operations(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)))
    answer = ask(node, ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    assert (len(answer.brokers), answer.cluster_authorized_operations) == (1, 0)


def test_a_creator_who_may_not_see_configs_gets_none(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE_CONFIGS, TOPIC, "new")))
    topic = {"name": "new", "num_partitions": 3, "replication_factor": 1}
    created = ask(node, ApiKey.CREATE_TOPICS, 7, topics=[topic]).topics[0]
    assert (created.error_code, created.topic_config_error_code) == (0, TOPIC_DENIED)
    assert (created.num_partitions, created.replication_factor, created.configs) == (-1, -1, [])
    assert len(node.broker.image.topics["new"].partitions) == 3


def test_what_is_denied_is_not_done(node: RealBroker) -> None:
    denied = (
        (AclOperation.CREATE, CLUSTER, CLUSTER_NAME),
        (AclOperation.CREATE, TOPIC, "new"),
        (AclOperation.DELETE, TOPIC, "t"),
    )
    authorized_by(
        node, Denies(*denied, (AclOperation.DELETE, CLUSTER, CLUSTER_NAME), (AclOperation.DELETE, GROUP, "g"))
    )
    ask(node, ApiKey.CREATE_TOPICS, 7, topics=[{"name": "new", "num_partitions": 1, "replication_factor": 1}])
    ask(node, ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout_ms=30_000)
    ask(node, ApiKey.DELETE_GROUPS, 2, groups_names=["g"])
    assert "new" not in node.broker.image.topics
    assert "t" in node.broker.image.topics
    assert "g" in node.broker.groups.coordinator.groups


@pytest.mark.parametrize(("operation", "name"), [(AclOperation.DESCRIBE, None), (AclOperation.DELETE, "t")])
def test_the_name_behind_an_id_is_for_those_who_may_describe_it(
    node: RealBroker, operation: AclOperation, name: str | None
) -> None:
    authorized_by(node, Denies((operation, TOPIC, "t"), (AclOperation.DELETE, CLUSTER, CLUSTER_NAME)))
    by_id = [{"name": None, "topic_id": "t"}]
    deleted = ask(node, ApiKey.DELETE_TOPICS, 6, topics=by_id, timeout_ms=30_000).responses[0]
    assert (deleted.error_code, deleted.name) == (TOPIC_DENIED, name)


def test_a_denied_topic_and_one_that_is_not_there_look_the_same(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, TOPIC, "t"), (AclOperation.DESCRIBE, TOPIC, "missing")))
    topics = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}, {"name": "missing"}]).topics
    assert [(topic.error_code, topic.topic_id, topic.partitions) for topic in topics] == [
        (TOPIC_DENIED, ZERO_UUID, [])
    ] * 2


def test_a_commit_tells_nobody_whether_a_denied_topic_exists(node: RealBroker) -> None:
    """Kafka has every denied topic in its answer, also a topic without partitions."""
    topics: list[dict[str, object]] = [{"name": name, "partitions": []} for name in ("t", "missing")]

    def answered(*denied: Right) -> list[str]:
        authorized_by(node, Denies(*denied))
        return [each.name for each in ask(node, ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=topics).topics]

    assert answered((AclOperation.READ, TOPIC, "t"), (AclOperation.READ, TOPIC, "missing")) == ["t", "missing"]
    assert answered((AclOperation.READ, GROUP, "g")) == ["t", "missing"]
    assert answered() == ["missing"]


def test_a_denied_internal_topic_looks_like_any_other(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, TOPIC, "__consumer_offsets")))
    answer = ask(node, ApiKey.METADATA, 11, topics=[{"name": "__consumer_offsets"}])
    assert [(each.error_code, each.is_internal) for each in answer.topics] == [(TOPIC_DENIED, False)]


def test_many_denied_topics_are_answered_without_a_comparison_of_each_with_each(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"denied-{number}" for number in range(50)]
    authorized_by(node, Denies(*((AclOperation.DESCRIBE, TOPIC, name) for name in names)))

    def compare(one: object, other: object) -> bool:
        raise AssertionError("one topic of the request was compared with another")

    monkeypatch.setattr(OffsetFetchRequestTopics, "__eq__", compare)
    asked = [{"name": name, "partition_indexes": [0]} for name in ("t", *names)]
    [group] = ask(node, ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": "g", "topics": asked}]).groups
    assert [(each.name, each.partitions[0].error_code) for each in group.topics] == [
        ("t", 0),
        *((name, TOPIC_DENIED) for name in names),
    ]


def test_an_old_client_is_shown_no_directories_and_no_error(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)))
    answer = ask(node, ApiKey.DESCRIBE_LOG_DIRS, 2, topics=None)
    assert (answer.error_code, answer.results) == (0, [])


def test_internal_topics_of_a_streams_group_need_the_right_to_create_them(node: RealBroker) -> None:
    authorized_by(
        node,
        Denies((AclOperation.CREATE, CLUSTER, CLUSTER_NAME), (AclOperation.CREATE, TOPIC, "k2-store-changelog")),
    )
    store = {"name": "k2-store-changelog", "partitions": 0, "replication_factor": 1}
    subtopology = {"subtopology_id": "0", "source_topics": ["t"], "state_changelog_topics": [store]}
    beat = {"process_id": "p", "rebalance_timeout_ms": 1000, "topology": {"subtopologies": [subtopology]}}
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    answer = ask(node, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, group_id="k2", member_id="m", **beat, **tasks)
    assert answer.error_code == 0
    assert "; Unauthorized to CREATE on topics k2-store-changelog." in "".join(
        one.status_detail for one in answer.status
    )
    assert "k2-store-changelog" not in node.broker.image.topics


def test_a_group_that_is_not_there_is_told_before_topics_that_may_not_be_read(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.READ, TOPIC, "t")))
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    assert ask(node, ApiKey.OFFSET_DELETE, 0, group_id="none", topics=topics).error_code == 69
    assert list(codes(ask(node, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics))) == [0, TOPIC_DENIED]


def test_a_partition_that_may_not_be_read_has_an_empty_list_of_aborted_transactions(node: RealBroker) -> None:
    """The list is empty like that of a partition that does not exist; with other errors the list is null."""
    authorized_by(node, Denies((AclOperation.READ, TOPIC, "t")))
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    answer = ask(node, ApiKey.FETCH, 12, max_wait_ms=0, topics=[{"topic": "t", "partitions": [wanted]}])
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code, partition.aborted_transactions) == (TOPIC_DENIED, [])


def test_a_refusal_of_features_is_one_for_all_of_them(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.ALTER, CLUSTER, CLUSTER_NAME)))
    update = {"feature": "metadata.version", "max_version_level": 1, "upgrade_type": 1}
    answer = ask(node, ApiKey.UPDATE_FEATURES, 1, feature_updates=[update])
    assert (answer.error_code, answer.results) == (CLUSTER_DENIED, [])


def test_who_may_not_see_a_group_is_told_so_in_words_by_old_versions(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, GROUP, "g")))
    answer = ask(node, ApiKey.FIND_COORDINATOR, 2, key_type=0, key="g")
    assert (answer.error_code, answer.error_message) == (GROUP_DENIED, "Group authorization failed.")


def test_the_id_of_a_topic_whose_offsets_may_not_be_altered_is_told(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.READ, TOPIC, "t")))
    start = {"topic_name": "t", "partitions": [{"partition_index": 0}]}
    topic = ask(node, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="s3", topics=[start]).responses[0]
    assert (topic.topic_id, topic.partitions[0].error_code) == (node.broker.image.topics["t"].id, TOPIC_DENIED)


@pytest.mark.parametrize(
    ("release", "value", "code"), [("4.3", "many", 42), ("4.3", "4", CLUSTER_DENIED), ("", "many", CLUSTER_DENIED)]
)
def test_what_is_wrong_with_a_brokers_config_was_told_before_rights_were_asked_for(
    tmp_path: Path, release: str, value: str, code: int
) -> None:
    """Refuse a wrong value before a missing right, as 4.3 does; Kafka 4.4 asks for the right first."""
    node = RealBroker(tmp_path, **({"pykafka.emulate": release} if release else {}))
    authorized_by(node, Denies((AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)))
    config = {"name": "num.io.threads", "config_operation": 0, "value": value}
    broker = {"resource_type": 4, "resource_name": "1", "configs": [config]}
    assert list(codes(ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[broker]))) == [code]


def test_brokers_whose_configs_may_not_be_altered_are_compared_with_nothing(
    node: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing each resource with each other would let one request of a stranger hold up everybody."""
    authorized_by(node, Denies((AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)))
    compared: list[object] = []

    def compare(one: object, other: object) -> bool:
        compared.append(other)
        return one is other

    monkeypatch.setattr(AlterConfigsResource, "__eq__", compare)
    brokers = [{"resource_type": 4, "resource_name": str(number), "configs": []} for number in range(100)]
    answer = ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=brokers)
    assert list(codes(answer)) == [CLUSTER_DENIED] * 100
    assert compared == []


class NothingGoes:
    """A policy that refuses everything."""

    def check_topic(self, creation: TopicCreation) -> None: ...

    def check_configs(self, alteration: ConfigAlteration) -> None:
        raise ApiError(ErrorCode.POLICY_VIOLATION)


@pytest.mark.parametrize("key", ["num.network.threads", "min.insync.replicas"])
def test_what_a_controller_says_of_a_brokers_config_is_for_those_who_have_the_right(node: RealBroker, key: str) -> None:
    config = {"name": key, "config_operation": 0, "value": "2"}
    brokers = [{"resource_type": 4, "resource_name": "1", "configs": [config]}]
    node.broker.metadata.controller.policies = NothingGoes()
    told = []
    for authorizer in (AllowAll(), Denies((AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME))):
        authorized_by(node, authorizer)
        told.append(list(codes(ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=brokers))))
        del config["config_operation"]
        told.append(list(codes(ask(node, ApiKey.ALTER_CONFIGS, 2, resources=brokers))))
        config["config_operation"] = 0
    refusal = ErrorCode.INVALID_CONFIG if key == "min.insync.replicas" else ErrorCode.POLICY_VIOLATION
    assert told == [[refusal], [refusal], [CLUSTER_DENIED], [CLUSTER_DENIED]]


@pytest.mark.parametrize(("version", "protocol_name"), [(6, ""), (7, None)])
def test_who_may_not_join_is_told_no_protocol(node: RealBroker, version: int, protocol_name: str | None) -> None:
    authorized_by(node, Denies((AclOperation.READ, GROUP, "g")))
    answer = ask(node, ApiKey.JOIN_GROUP, version, group_id="g", member_id="m", protocol_type="consumer")
    assert (answer.error_code, answer.protocol_name, answer.member_id) == (GROUP_DENIED, protocol_name, "")


def test_reassignments_that_may_not_be_seen_are_named_as_they_were_asked_for(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)))
    asked = {"topics": [{"name": "t", "partition_indexes": [0, 7]}]}
    answer = ask(node, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, **asked)
    assert answer.error_code == CLUSTER_DENIED
    assert [(one.name, [each.partition_index for each in one.partitions]) for one in answer.topics] == [("t", [0, 7])]


def test_a_pattern_does_not_stand_for_topics_that_may_not_be_described(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, TOPIC, "u")))
    beat = {"rebalance_timeout_ms": 1000, "topic_partitions": [], "subscribed_topic_regex": "t|u"}
    member = {"group_id": "c3", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    answer = ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **member, **beat)
    topics = node.broker.image.topics
    assert [one.topic_id for one in answer.assignment.topic_partitions] == [topics["t"].id]


def test_changes_that_make_no_sense_are_refused_before_rights_are_asked_for(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.ALTER_CONFIGS, TOPIC, "t")))
    config = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    topic = {"resource_type": 2, "resource_name": "t", "configs": [config, config]}
    assert list(codes(ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[topic]))) == [42]
    del config["config_operation"]
    assert list(codes(ask(node, ApiKey.ALTER_CONFIGS, 2, resources=[topic]))) == [42]


def test_a_quorum_that_may_not_be_seen_has_no_topics(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)))
    asked = [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]
    answer = ask(node, ApiKey.DESCRIBE_QUORUM, 0, topics=asked)
    assert (answer.error_code, answer.topics) == (CLUSTER_DENIED, [])


def test_a_share_request_without_a_group_is_wrong_whoever_sends_it(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.READ, GROUP, "")))
    assert ask(node, ApiKey.SHARE_ACKNOWLEDGE, 1, group_id=None, member_id="m", topics=[]).error_code == 42
    assert ask(node, ApiKey.SHARE_FETCH, 1, group_id=None, member_id="m", topics=[]).error_code == 42


def test_a_state_of_no_partitions_is_told_to_everybody(node: RealBroker) -> None:
    authorized_by(node, Denies((AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)))
    assert ask(node, ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, group_id="s", topics=[]).results == []
