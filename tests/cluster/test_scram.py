"""SCRAM credentials: the keys are those that a real 4.4.0 broker wrote for the same salted password."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.cluster.records import encode_record
from pykafka_broker.cluster.scram import alter_user_scram_credentials, describe_user_scram_credentials
from pykafka_broker.cluster.snapshot import snapshot_records
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.cluster.support import Cluster

SNAPSHOT = Path(__file__).with_name("data") / "kafka.checkpoint"


def upsertion(name: str, mechanism: int = 1) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, 4096, bytes(3), bytes(3))


def test_the_record_is_kafkas() -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice")])
    (record,) = alter_user_scram_credentials(Cluster().controller, request).records
    recorded = snapshot_records(OsFileSystem(), str(SNAPSHOT))
    assert encode_record(record) in [encode_record(other) for other in recorded]


def test_a_user_may_have_one_credential_for_each_mechanism() -> None:
    cluster = Cluster()
    for mechanism in (2, 1):
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion("u", mechanism)])
        cluster.do(alter_user_scram_credentials(cluster.controller, request))
    (result,) = describe_user_scram_credentials(cluster.image, ["u"]).results
    assert [info.mechanism for info in result.credential_infos] == [1, 2]
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("u", 2)])
    cluster.do(alter_user_scram_credentials(cluster.controller, request))
    assert list(cluster.image.scram) == [(1, "u")]
