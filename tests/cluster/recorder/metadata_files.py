"""Records the files of `../data`, which kafka-storage and a broker write.

    python -m tests.cluster.recorder.metadata_files

Rule: the files are copies. Only `standalone.log` is cut, after the first records of the cluster.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.rights import AUTHORIZER
from interop.waiting import eventually
from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, snapshot_name
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.runtime import Fields, Message
from pykafka_broker.records.header import iter_batches

DATA = Path(__file__).parents[1] / "data"
ADVERTISED = "PLAINTEXT://127.0.0.1:29500"  # a port that is in the records: it stays from recording to recording
LAST_WITH_BOOTSTRAP_FILE = "4.3.1"  # kafka-storage of newer releases leaves its records in the metadata log
QUIET = {"metadata.max.idle.interval.ms": "0"}  # no records that only tell of time
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "200"}
TIMEOUT_S = 30
DELETE = 1  # an operation of IncrementalAlterConfigs
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3  # of ACLs
SHA_256, SHA_512 = 1, 2


def record() -> None:
    with _folder() as folder:
        kafka = RealKafka(directory=folder, release=LAST_WITH_BOOTSTRAP_FILE)
        kafka.format()
        shutil.copyfile(kafka.data_dir / BOOTSTRAP_FILE, DATA / BOOTSTRAP_FILE)
    with _folder() as folder:
        _static_quorum(folder)
    with _folder() as folder:
        _dynamic_quorum(folder)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="metadata-files-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _static_quorum(folder: Path) -> None:
    """Record two lives of a broker, and the snapshot of a third one."""
    config = {"advertised.listeners": ADVERTISED, **QUIET, **AUTHORIZER}
    kafka = RealKafka(config, directory=folder)
    metadata = kafka.data_dir / f"{METADATA_TOPIC}-0"
    kafka.format()
    shutil.copyfile(metadata / snapshot_name(0, 0), DATA / "formatted.checkpoint")
    kafka.start()
    with RawClient(kafka.bootstrap_servers) as client:
        for request in _changes():
            eventually(_succeeds(client, request), True, TIMEOUT_S)
    kafka.restart()
    kafka.stop()
    shutil.copyfile(metadata / f"{0:020d}.log", DATA / "kafka.log")
    shutil.copyfile(metadata / "quorum-state", DATA / "quorum-state")
    before = set(metadata.glob("*.checkpoint"))
    with RealKafka(config | SNAPSHOTS, directory=folder, port=kafka.port):
        eventually(lambda: set(metadata.glob("*.checkpoint")) > before, True, TIMEOUT_S)
    shutil.copyfile(max(metadata.glob("*.checkpoint")), DATA / "kafka.checkpoint")


def _dynamic_quorum(folder: Path) -> None:
    kafka = RealKafka(directory=folder, standalone=True)
    metadata = kafka.data_dir / f"{METADATA_TOPIC}-0"
    kafka.format()
    shutil.copyfile(metadata / snapshot_name(0, 0), DATA / "standalone.checkpoint")
    kafka.start()
    kafka.stop()
    batches = iter_batches((metadata / f"{0:020d}.log").read_bytes())
    (DATA / "standalone.log").write_bytes(b"".join(bytes(batch) for _, batch in islice(batches, 2)))


def _succeeds(client: RawClient, request: Message) -> Callable[[], bool]:
    return lambda: not any(_errors(client.call(request)))


def _errors(answer: Any) -> Iterator[int]:
    for name in type(answer).__match_args__:
        value = getattr(answer, name)
        if name == "error_code":
            yield value
        for each in value if isinstance(value, list) else ():
            if isinstance(each, Fields):
                yield from _errors(each)


def _config(kind: ConfigResourceType, resource: str, **values: str | None) -> AlterConfigsResource:
    configs = [
        AlterableConfig(key.replace("_", "."), DELETE if value is None else 0, value) for key, value in values.items()
    ]
    return AlterConfigsResource(kind, resource, configs)


def _changes() -> list[Message]:
    """Return one change of each sort, and what takes some of them back."""
    kinds, salted = ConfigResourceType, bytes(3)
    return [
        CreateTopicsRequest([
            CreatableTopic("one", 2, 1, [], [
                CreatableTopicConfig("cleanup.policy", "compact"), CreatableTopicConfig("retention.ms", "77"),
            ]),
            CreatableTopic("gone", 1, 1, [], [CreatableTopicConfig("retention.ms", "5")]),
        ]),
        CreatePartitionsRequest([CreatePartitionsTopic("one", 3, None)], 30_000),
        DeleteTopicsRequest([DeleteTopicState("gone")], [], 30_000),
        IncrementalAlterConfigsRequest([
            _config(kinds.TOPIC, "one", retention_ms=None, segment_ms="100000"),
            _config(kinds.GROUP, "g1", consumer_session_timeout_ms="50000"),
            _config(kinds.CLIENT_METRICS, "m1", interval_ms="50000"),
        ]),
        AlterClientQuotasRequest([
            EntryData([EntityData("user", "u1")], [OpData("producer_byte_rate", 1000.0)]),
            EntryData([EntityData("user", None), EntityData("client-id", "c")], [OpData("request_percentage", 1.5)]),
        ]),
        AlterUserScramCredentialsRequest([], [
            ScramCredentialUpsertion("alice", SHA_256, 4096, bytes(3), salted),
            ScramCredentialUpsertion("bob", SHA_512, 4096, bytes(3), salted),
        ]),
        AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", SHA_512)], []),
        CreateAclsRequest([
            AclCreation(TOPIC, "one", LITERAL, "User:alice", "*", READ, ALLOW),
            AclCreation(TOPIC, "two", LITERAL, "User:bob", "*", READ, ALLOW),
        ]),
        DeleteAclsRequest([DeleteAclsFilter(TOPIC, "two", LITERAL, "User:bob", "*", READ, ALLOW)]),
        InitProducerIdRequest(None, 60_000),
        UpdateFeaturesRequest(30_000, [FeatureUpdateKey("streams.version", 0, upgrade_type=2)]),
    ]  # fmt: skip


if __name__ == "__main__":
    record()
