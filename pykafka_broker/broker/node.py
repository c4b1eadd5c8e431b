"""The base of one broker: its settings, its time, its logs, its metadata and its partitions.

Rule: no part of a node knows coordinators or requests. Hosts of coordinators get a `ServerNode`, handlers get the
`Services` that are made of the node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader, MetadataSource, ProducerIdManager
from pykafka_broker.broker.partitions.partition import NO_EPOCH
from pykafka_broker.broker.partitions.replicas import Replicas
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.broker.waiting.future import Later, Purgatory, Slices
from pykafka_broker.clock import Clock
from pykafka_broker.cluster.authorizer import AllowAll, Authorizer
from pykafka_broker.cluster.image import NO_LEADER, MetadataDelta, MetadataImage
from pykafka_broker.cluster.topic_names import creatable_topic
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.config.topic import readable_overrides
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pykafka_broker.broker.channels import BrokerChannels
    from pykafka_broker.broker.metadata.metadata_follower import MetadataFollower
    from pykafka_broker.peers import Peers

logger = logging.getLogger(__name__)

Subscriber = Callable[[MetadataDelta], None]


class ServerNode:
    """The base of a broker, or of a controller alone.

    config: the settings of now; dynamic settings lie over `static_config`.
    metadata_leader: the metadata where this node leads its log, else None.
    metadata_follower: the metadata where another node leads its log, else None.
    peers: the other nodes, where there can be any.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        fs: FileSystem,
        *,
        new_uuid: Callable[[], bytes],
        submit: Submit,
        thread_pool: Callable[[int], Executor] | None,
        setup: Setup = NO_SETUP,
        later: Later | None = None,
        peers: Peers | None = None,
        log_listener: LogListener | None = None,
    ) -> None:
        self.id: int = config.node
        self.config = self.static_config = config
        self.roles = roles_of(config)
        self.setup = setup
        self.peers = peers
        self.authorizer: Authorizer = AllowAll()
        self.clock = clock
        self.new_uuid = new_uuid
        self.purgatory = Purgatory()
        self.slices = Slices(later)
        self.logs = LogManager(
            fs,
            config,
            clock=clock,
            new_uuid=new_uuid,
            topic_config=self.topic_config,
            submit=submit,
            thread_pool=thread_pool,
            cluster_id=setup.cluster_id,
            listener=log_listener,
        )
        self.metadata_leader: MetadataLeader | None = None
        self.metadata_follower: MetadataFollower | None = None
        self.metadata: MetadataSource
        if self.roles.observes:
            from pykafka_broker.broker.metadata.metadata_follower import MetadataFollower  # no other start waits for it

            assert peers is not None, "a node whose controllers are others has to reach them"
            self.logs.metadata_is_elsewhere = True
            self.metadata = self.metadata_follower = MetadataFollower(
                config, self.roles, clock, fs, self.logs, peers, new_uuid=new_uuid, submit=submit
            )
        else:
            self.metadata = self.metadata_leader = MetadataLeader(
                config, clock, fs, self.logs, new_uuid=new_uuid, submit=submit
            )
        self.producer_ids = ProducerIdManager(self.id, lambda: self.broker_epoch, self.metadata.ask)
        self.replicas = Replicas(self.id, self.metadata, self.logs, clock, self.purgatory.touch, self.slices)
        self.subscribers: list[Subscriber] = []

    @property
    def led_metadata(self) -> MetadataLeader:
        """The metadata log's leader in the process. Raises NOT_CONTROLLER."""
        if self.metadata_leader is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self.metadata_leader

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def broker_epoch(self) -> int:
        """The epoch of the broker's registration; -1 without a registration."""
        broker = self.image.brokers.get(self.id)
        return NO_EPOCH if broker is None else broker.epoch

    @property
    def cluster_id(self) -> str:
        return self.logs.cluster_id

    @cached_property
    def broker_channels(self) -> BrokerChannels:
        from pykafka_broker.broker.channels import BrokerChannels

        return BrokerChannels(self)

    def other_leader(self, topic: str, partition: int) -> int | None:
        """Return the remote leader of a partition; None without a leader, or for a local leader."""
        state = self.image.partition(topic, partition)
        return None if state is None or state.leader in (self.id, NO_LEADER) else state.leader

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every change of the metadata, after logs and configs have followed the change."""
        self.subscribers.append(subscriber)

    def create_missing_topics(self, names: Iterable[str], context: RequestContext | None = None) -> None:
        """Create topics for a client or a coordinator, if possible now; internal topics get their own settings.

        Names that can't be topics stay missing without an error, and so do topics above the quota of the client.
        """
        # A broker that is away for a while counts: a topic with a replica too few would have it for ever.
        brokers = sum(not each.all_dirs_cordoned for each in self.image.brokers.values())
        topics = [creatable_topic(name, self.config, brokers) for name in names]
        results = self.metadata.create_topics(topics, context)
        refused = [each for each in results if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR]
        if refused:
            all_names, why = ", ".join(each.name for each in refused), refused[0].error_message
            logger.warning("Could not create %s: %s: %s", all_names, ErrorCode.KAFKA_STORAGE_ERROR.name, why)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Replace the settings."""
        self.config = self.logs.config = config
        self.metadata.reconfigure(config)

    def authorize_by(self, authorizer: Authorizer) -> None:
        """Ask `authorizer` from now on, in the controller of the node."""
        self.authorizer = authorizer
        if self.metadata_leader is not None:
            self.metadata_leader.controller.authorizer = authorizer

    def topic_config(self, topic: str) -> TopicConfig:
        """Return the topic's settings over the broker's defaults."""
        return TopicConfig.resolve(self.config, self.topic_overrides(topic))

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, without settings of other releases of Kafka.

        A broker that refuses to start on such a setting would help nobody.
        """
        return readable_overrides(self.config, self.image.topic_config(topic))
