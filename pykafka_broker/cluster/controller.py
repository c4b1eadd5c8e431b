"""The controller: what decides about the cluster's metadata.

Rule: a decision reads the image and changes nothing; it returns a `Decision`. The metadata source commits its records
and replays them into the image, and only then the reply goes out. The decisions stand in the modules beside this one
(`topics`, `config_changes`, `feature_updates`, `quotas`), each a function of the controller and the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pykafka_broker.cluster.authorizer import AllowAll, Authorizer
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config.broker import BrokerConfig

if TYPE_CHECKING:
    from pykafka_broker.cluster.policies import Policies

ReplyT = TypeVar("ReplyT")

MAX_RECORDS_PER_OPERATION = 10_000  # what one request may write
# The first metadata.version whose partition records have directory ids (KIP-858), eligible leader replicas (KIP-966)
DIRECTORIES_FROM = 17
_ELR_FROM = 23
# ... and whose broker records have cordoned directories (KIP-1066).
CORDONED_FROM = 30


class Decision(NamedTuple, Generic[ReplyT]):
    """Records to commit as one batch, and the answer to give then. kraft_version: what the quorum goes up to, 0 if it
    stays where it is.
    """

    records: list[ApiMessageAndVersion]
    reply: ReplyT
    kraft_version: int = 0


# Called with how many partitions are to be created or deleted; raises THROTTLING_QUOTA_EXCEEDED where these are too
# many for the quota of whoever asks (KIP-599).
Spend = Callable[[int], None]


def unlimited(partitions: int) -> None:
    """Who asks has no quota."""


# Called with the configuration as it would be, and the names that a request changes; raises ConfigError.
CheckListener = Callable[[BrokerConfig, Collection[str]], None]


def usable_brokers(image: MetadataImage) -> list[int]:
    """Brokers that can be given new replicas, in order of id."""
    return sorted(
        broker.id
        for broker in image.brokers.values()
        if not broker.fenced and not broker.in_controlled_shutdown and not broker.all_dirs_cordoned
    )


def partition_record_version(image: MetadataImage) -> int:
    """In which records of partitions are written at the metadata.version of the image."""
    level = image.features.get(METADATA_VERSION, 0)
    return 2 if level >= _ELR_FROM else 1 if level >= DIRECTORIES_FROM else 0


def broker_record_version(image: MetadataImage) -> int:
    """The same of registrations."""
    level = image.features.get(METADATA_VERSION, 0)
    return 4 if level >= CORDONED_FROM else 3 if level >= DIRECTORIES_FROM else 2 if level >= 8 else 1


class Controller:
    """What every decision reads. `config` is replaced when dynamic configs change; `check_listeners` are asked of
    changes of this node's own; `alone`: there can be no other node."""

    __slots__ = (
        "alone",
        "authorizer",
        "check_listeners",
        "config",
        "first_leader_epoch",
        "image",
        "kraft_version",
        "new_uuid",
        "node_id",
        "policies",
    )

    def __init__(self, image: MetadataImage, config: BrokerConfig, node_id: int, new_uuid: Callable[[], bytes]) -> None:
        self.image = image
        self.config = config
        self.node_id = node_id
        self.new_uuid = new_uuid
        self.authorizer: Authorizer = AllowAll()
        self.policies: Policies | None = None
        self.check_listeners: Sequence[CheckListener] = ()
        self.first_leader_epoch = 0  # of new partitions
        self.kraft_version = 0  # of the quorum, which keeps it in its log beside the metadata
        self.alone = True

    def partition_record_version(self) -> int:
        return partition_record_version(self.image)

    def broker_record_version(self) -> int:
        return broker_record_version(self.image)
