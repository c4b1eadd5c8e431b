"""The controller: decisions about the cluster's metadata.

Rule: a decision reads the image and changes nothing; it returns a `Decision`. The metadata source commits its records
and replays them into the image, and only then the reply goes out. The decisions stand in the modules beside this one
(`topics`, `config_changes`, `feature_updates`, `quotas`), each a function of the controller and the request.

An operator's policies (KIP-108, KIP-133) are asked last, about a change that would be made otherwise, also where a
request only wants the change to be checked; the words are Kafka's `RequestMetadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from pykafka_broker.cluster.authorizer import AllowAll, Authorizer
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic

ReplyT = TypeVar("ReplyT")
MAX_RECORDS_PER_OPERATION = 10_000  # records that one request may write
# The first metadata.version whose partition records have directory ids (KIP-858), eligible leader replicas (KIP-966)
DIRECTORIES_FROM = 17
_ELR_FROM = 23
# ... and whose broker records have cordoned directories (KIP-1066).
CORDONED_FROM = 30


class RequestRefused(ApiError):
    """A refusal of all changes of a request, for one of the changes."""


def invalid_request(message: str) -> ApiError:
    """Return the refusal of a request that makes no sense, in Kafka's words."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


class TooManyRecords(RequestRefused):
    """A request would write too many records: nothing changes."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class TopicCreation(NamedTuple):
    """A wanted topic: partitions and replication factor with defaults, or instead the brokers of each partition.

    `configs` are the ones that the request names.
    """

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, list[int]] | None
    configs: Mapping[str, str]


class ConfigAlteration(NamedTuple):
    """A change of configs.

    `resource_type` is TOPIC, BROKER, GROUP or CLIENT_METRICS; `configs` are the values that would change, None for one
    that is to be taken away. Configs of a new topic are among them.
    """

    resource_type: str
    resource_name: str
    configs: Mapping[str, str | None]


class Policies(Protocol):
    """An operator's policies; a check raises ApiError to refuse."""

    def check_topic(self, creation: TopicCreation) -> None: ...

    def check_configs(self, alteration: ConfigAlteration) -> None: ...


def check_creation(
    policies: Policies, topic: CreatableTopic, assignments: list[list[int]], configs: Mapping[str, str]
) -> None:
    """Ask the policies about a topic with the given replicas of each partition."""
    if configs:
        policies.check_configs(ConfigAlteration(ConfigResourceType.TOPIC.name, topic.name, configs))
    if topic.assignments:
        creation = TopicCreation(topic.name, None, None, dict(enumerate(assignments)), configs)
    else:
        creation = TopicCreation(topic.name, len(assignments), len(assignments[0]), None, configs)
    policies.check_topic(creation)


class Decision(NamedTuple, Generic[ReplyT]):
    """Records to commit as a batch, and the answer to give then.

    kraft_version: what the quorum goes up to, 0 if it stays where it is.
    """

    records: list[ApiMessageAndVersion]
    reply: ReplyT
    kraft_version: int = 0


# Called with the number of partitions to create or delete; raises THROTTLING_QUOTA_EXCEEDED where these are too
# many for the client's quota (KIP-599).
Spend = Callable[[int], None]


def unlimited(partitions: int) -> None:
    """Spend nothing: the client has no quota."""


# Called with the configuration after the change, and the names that a request changes; raises ConfigError.
CheckListener = Callable[[BrokerConfig, Collection[str]], None]


def check_time(timeout_ms: int) -> None:
    """Refuse changes that the client gives no time.

    Changes of topics, elections and reassignments call this as soon as something is left to decide, as in Kafka: names
    that are wrong by themselves and missing rights are refused before, policies and quotas are asked after.

    Raises:
        ApiError: REQUEST_TIMED_OUT, about the whole request.
    """
    if timeout_ms <= 0:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)


def partition_record_version(image: MetadataImage) -> int:
    """Return the version of partition records at the metadata.version of the image."""
    level = image.features.get(METADATA_VERSION, 0)
    return 2 if level >= _ELR_FROM else 1 if level >= DIRECTORIES_FROM else 0


def broker_record_version(image: MetadataImage) -> int:
    """Return the same of registrations."""
    level = image.features.get(METADATA_VERSION, 0)
    return 4 if level >= CORDONED_FROM else 3 if level >= DIRECTORIES_FROM else 2 if level >= 8 else 1


class Controller:
    """The input of every decision.

    `config` is replaced when dynamic configs change; `check_listeners` are asked of changes of this node's own;
    `alone`: there can be no other node.
    """

    def __init__(self, image: MetadataImage, config: BrokerConfig, node_id: int, new_uuid: Callable[[], bytes]) -> None:
        self.image = image
        self.config = config
        self.node_id = node_id
        self.new_uuid = new_uuid
        self.authorizer: Authorizer = AllowAll()
        self.policies: Policies | None = None
        self.check_listeners: Sequence[CheckListener] = ()
        self.first_leader_epoch = 0  # of new partitions
        self.kraft_version = 0  # of the quorum, from the control records of its log
        self.alone = True
        self.ignores_case = False  # the file system takes names that differ in case alone for one

    def partition_record_version(self) -> int:
        return partition_record_version(self.image)

    def broker_record_version(self) -> int:
        return broker_record_version(self.image)
