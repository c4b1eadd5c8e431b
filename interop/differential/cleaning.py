"""The removal of what a sequence left on a shared broker. Rule: afterwards the cluster has its defaults again."""

from __future__ import annotations

from collections.abc import Sequence

from interop.differential.making.streams import INTERNAL, WILD
from interop.differential.making.topics import NAMES
from interop.differential.steps import PREFIX, Step
from interop.raw import RawClient
from pykafka_broker.protocol.messages import alter_client_quotas_request as quotas
from pykafka_broker.protocol.messages import delete_acls_request as acls
from pykafka_broker.protocol.messages import incremental_alter_configs_request as configs
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

BROKER, DELETE = 4, 1
DYNAMIC_SOURCES = (2, 3)  # the sources of a broker's own configs and of the cluster's
STAYS = "min.insync.replicas"  # set for the cluster from the start, and not to be removed
ALL_NAMES = {*NAMES, *INTERNAL, *WILD, "§b", "§c", "§s", "§t", "§none"}


def clean(bootstrap_servers: str, prefix: str, steps: Sequence[Step], stranger: str = "") -> None:
    """Remove what the steps may have left. stranger: the address of the client whose rights the sequence changed."""
    asked = {step.api for step in steps}
    with RawClient(bootstrap_servers) as client:
        if "CreateTopics" in asked or "Metadata" in asked:
            names = [name.replace(PREFIX, prefix) for name in sorted(ALL_NAMES)]
            client.call(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 5)
        if asked & {"OffsetCommit", "TxnOffsetCommit"}:
            client.call(DeleteGroupsRequest([""]), 2)  # the group with the empty name, which all sequences share
        if asked & {"AlterConfigs", "IncrementalAlterConfigs"}:
            _reset_broker(client)
        if "CreateAcls" in asked:
            whose = [(None, stranger), ("User:x", "*")] if stranger else [("User:x", "*")]
            given = [acls.DeleteAclsFilter(1, None, 1, user, host, 1, 1) for user, host in whose]
            client.call(acls.DeleteAclsRequest(given), 3)
        if "AlterClientQuotas" in asked:
            _remove_quotas(client)


def _reset_broker(client: RawClient) -> None:
    for name in ("1", ""):
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, None)])
        [described] = client.call(request, 4).results
        source = DYNAMIC_SOURCES[not name]
        dynamic = [
            config.name for config in described.configs if config.config_source == source and config.name != STAYS
        ]
        gone = [configs.AlterableConfig(key, DELETE, None) for key in dynamic]
        if gone:
            client.call(configs.IncrementalAlterConfigsRequest([configs.AlterConfigsResource(BROKER, name, gone)]), 1)


def _remove_quotas(client: RawClient) -> None:
    found = client.call(DescribeClientQuotasRequest([], False), 1).entries
    gone = [
        quotas.EntryData(
            [quotas.EntityData(part.entity_type, part.entity_name) for part in entry.entity],
            [quotas.OpData(value.key, 0.0, True) for value in entry.values],
        )
        for entry in found or ()
    ]
    if gone:
        client.call(quotas.AlterClientQuotasRequest(gone), 1)
