"""The brokers of one cluster, as a client sees them.

Rule: a request is repeated, with a pause, while its broker can't be reached, until `default.api.timeout.ms` have
passed; before each repetition the client looks up where the broker is by now, and which broker is the controller, the
coordinator or the leader. A request that may have been carried out is repeated only if its caller says that a
repetition does no harm. Errors in an answer are the caller's business, except a coordinator that has moved: it is
looked up anew here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypedDict, TypeVar, Unpack

from pykafka_broker.client.errors import AuthenticationFailed, ClientError, KafkaError, TimedOut, Unusable, check
from pykafka_broker.client.properties import addresses, check_resolvable, number, security_of, trimmed
from pykafka_broker.errors import NotLetIn
from pykafka_broker.peers import LinkBroken, LinkError, LinkTimeout, NotServed, Unsendable, Versions
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.runtime import ZERO_UUID, EncodeError, Message, leaves
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.link import PLAIN, Link, LinkSettings, growing_pause_ms

logger = logging.getLogger(__name__)
T = TypeVar("T")

# -- brokers


_API_TIMEOUT_MS = 60_000  # Kafka docs, "Admin Configs": default.api.timeout.ms
_REQUEST_TIMEOUT_MS = 30_000
_RETRY_BACKOFF_MS = 100
_RECONNECT_BACKOFF_MS = 50
_BACKOFF_MAX_MS = 1_000
_CONTROLLERS = 2  # endpoint_type of DescribeCluster (KIP-919)


# Another request, to a coordinator that is looked up anew, may be answered.
COORDINATOR_ERRORS = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
# NOT_LEADER_OR_FOLLOWER is a controller's error about the quorum's log.
_NOT_THE_CONTROLLER = {ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER}


class BrokerNode(NamedTuple):
    """A broker or a controller."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class AskOptions(TypedDict, total=False):
    """Options of a request.

    versions: the lowest and the highest version that may be used. call: the name that Kafka's client has for the call,
    for the text of a time-out. repeatable: the request may be carried out twice, as by default. replaceable: another
    node may have to be asked instead: `Unreached` is raised after one attempt.
    """

    versions: Versions | None
    timeout_ms: int | None
    call: str | None
    repeatable: bool
    replaceable: bool


class Unreached(Exception):
    """A node was not reached; another node may have the same duty by now."""


class Client:
    """A client of a cluster, in an event loop: `async with Client("localhost:9092") as client`.

    Args:
        bootstrap: `host:port,host:port`.
        properties: properties of Kafka's clients; unknown ones are ignored.
        client_id: used if the properties have none.
        of_controllers: `bootstrap` names controllers (KIP-919).

    Raises:
        Unusable: a property or an address makes no sense.
    """

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, str] | None = None,
        *,
        client_id: str = "pykafka-broker-tools",
        of_controllers: bool = False,
    ) -> None:
        self.properties = trimmed(properties or {})
        self.nodes: dict[int, BrokerNode] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.clock = SystemClock()
        self.api_timeout_ms = number(self.properties, "default.api.timeout.ms", _API_TIMEOUT_MS, least=0)
        self.request_timeout_ms = number(self.properties, "request.timeout.ms", _REQUEST_TIMEOUT_MS, least=0)
        self._backoff_ms = number(self.properties, "retry.backoff.ms", _RETRY_BACKOFF_MS, least=0)
        self._backoff_max_ms = number(self.properties, "retry.backoff.max.ms", _BACKOFF_MAX_MS, least=0)
        for name in ("send.buffer.bytes", "receive.buffer.bytes"):  # nothing else is made of them
            number(self.properties, name, -1, least=-1)
        number(self.properties, "metadata.max.age.ms", 0, least=0)
        self._of_controllers = of_controllers
        self._bootstrap = addresses(bootstrap)
        check_resolvable(self._bootstrap)
        self._security = security_of(self.properties) or PLAIN
        self._settings = LinkSettings(
            client_id=_sendable(self.properties.get("client.id", client_id)),
            reconnect_backoff_ms=number(self.properties, "reconnect.backoff.ms", _RECONNECT_BACKOFF_MS, least=0),
            reconnect_backoff_max_ms=number(self.properties, "reconnect.backoff.max.ms", _BACKOFF_MAX_MS, least=0),
            patient=False,
        )
        self._links: dict[tuple[tuple[str, int], str], Link] = {}  # by address and line
        self._turns: EventLoop | None = None
        self._silent: set[tuple[str, int]] = set()  # addresses whose first failure is logged

    async def __aenter__(self) -> Self:
        self._turns = EventLoop(asyncio.get_running_loop(), self.clock)
        return self

    async def __aexit__(self, *_: object) -> None:
        links, turns, self._links, self._turns = self._links, self._turns, {}, None
        for link in links.values():
            link.close()
        await asyncio.sleep(0)
        if turns is not None:
            turns.close()

    def deadline(self, timeout_ms: int | None = None) -> int:
        """Return the time of the steady clock in `timeout_ms`, or after `default.api.timeout.ms`."""
        self.clock.tick()
        return self.clock.now + (self.api_timeout_ms if timeout_ms is None else timeout_ms)

    def pause_ms(self, failures: int) -> int:
        """Return the pause after so many failures in a row: it grows up to `retry.backoff.max.ms` (KIP-580)."""
        return growing_pause_ms(failures, self._backoff_ms, self._backoff_max_ms, random.random())

    # -- requests to a broker

    async def ask(self, request: Message, node_id: int | None = None, **options: Unpack[AskOptions]) -> Any:
        """Send a request to a node, or to any node for None, and return the answer. An unknown node is waited for.

        Where the client knows controllers, the active one is asked for "any node", since others refuse most requests,
        and for a broker, about which it decides.

        Raises:
            TimedOut: no node answered in time.
            KafkaError: the node does not serve the request.
            Unreached: the node of a `replaceable` request was not reached, and there is time for another attempt.
        """
        if node_id is not None and node_id not in self.nodes:
            await self.refresh(timeout_ms=options.get("timeout_ms"), call=options.get("call"))
        if self._of_controllers and (node_id is None or node_id not in self.nodes):
            return await self.ask_controller(request, **options)
        return await self._ask(request, node_id, **options)

    async def _ask(
        self,
        request: Message,
        node_id: int | None,
        *,
        versions: Versions | None = None,
        timeout_ms: int | None = None,
        call: str | None = None,
        repeatable: bool = True,
        replaceable: bool = False,
    ) -> Any:
        until, backoff = self.deadline(timeout_ms), Backoff(self)
        addresses = self._addresses_of(node_id)
        while True:
            for address in addresses:
                left = until - self.deadline(0)
                if left <= 0:
                    raise self._too_late(request, call)
                try:
                    asked = self._link(address).ask(request, min(left, self.request_timeout_ms), versions=versions)
                    return await asked
                except (NotServed, Unsendable) as error:
                    raise _not_served(request, error, self._of_controllers) from None
                except LinkError as error:
                    self._raise_if_final(error, request, until, call, repeatable)
                    self._log_silence(address, error, until)
                    if replaceable:
                        raise Unreached from error
            if not addresses and (replaceable or self.deadline(0) >= until):
                raise Unreached if replaceable else self._too_late(request, call)
            await backoff.pause(until)
            if node_id is not None:
                with suppress(ClientError):
                    await self.refresh(timeout_ms=max(1, until - self.deadline(0)), call=call)
            if node_id is None or node_id in self.nodes:  # the last known address of a node that is away stays
                addresses = self._addresses_of(node_id)

    async def ask_once(
        self,
        request: Message,
        node_id: int,
        *,
        versions: Versions | None = None,
        timeout_ms: int | None = None,
        unanswered: bool = False,
        line: str = "",
    ) -> Any:
        """Send a request to a node of `nodes` once, and return the answer, None for an `unanswered` request.

        Args:
            unanswered: the request has no answer.
            line: the name of a separate connection, for requests with late answers: a node answers one after another.

        Raises:
            LinkError: no answer came; another attempt may help.
            ClientError: another attempt would end in the same way.
        """
        if node_id not in self.nodes:
            raise LinkTimeout(f"the cluster has no node {node_id} at present", sent=False)
        link = self._link(self._addresses_of(node_id)[0], line)
        wait_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await link.ask(request, wait_ms, versions=versions, unanswered=unanswered)
        except (NotServed, Unsendable) as error:
            raise _not_served(request, error, self._of_controllers) from None
        except LinkError as error:
            _check_login(error)
            raise

    def _raise_if_final(
        self, error: LinkError, request: Message, until: int, call: str | None, repeatable: bool
    ) -> None:
        """Raise the error of an attempt, unless another attempt is to follow."""
        acted = isinstance(error, LinkBroken) or (isinstance(error, LinkTimeout) and error.sent)
        _check_login(error)
        if acted and not repeatable:
            raise TimedOut(f"{SPECS[request.API_KEY].name} was sent, and no answer came: {error}") from None
        if self.deadline(0) >= until:
            raise self._too_late(request, call) from error

    def _log_silence(self, address: tuple[str, int], error: LinkError, until: int) -> None:
        """Log the first failure at an address before any broker has answered: the next news may be a minute away."""
        if not self.nodes and address not in self._silent:
            self._silent.add(address)
            left_s = max(0, until - self.deadline(0)) / 1000
            hint = " (does it want another security.protocol?)" if isinstance(error.ended_by, EOFError) else ""
            logger.warning("%s%s; trying again for %.0f s", error, hint, left_s)

    def _too_late(self, request: Message, call: str | None) -> TimedOut:
        name = SPECS[request.API_KEY].name
        return TimedOut(f"Timed out waiting for a node assignment. Call: {call or name[0].lower() + name[1:]}")

    def _addresses_of(self, node_id: int | None) -> list[tuple[str, int]]:
        """Return the address of a node, none if unknown, or for None all addresses where some node may be."""
        if node_id is not None:
            node = self.nodes.get(node_id)
            return [] if node is None else [(node.host, node.port)]
        known = [(node.host, node.port) for node in self.nodes.values()]
        return [*random.sample(known, len(known)), *(each for each in self._bootstrap if each not in known)]

    def _link(self, address: tuple[str, int], line: str = "") -> Link:
        link = self._links.get((address, line))
        if link is None:
            if self._turns is None:
                raise ClientError("The client is closed, or was never entered with `async with`")
            link = self._links[address, line] = Link(self._turns, *address, self._settings, security=self._security)
        return link

    async def until_answered(self, once: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request that times out, or whose coordinator is still missing then, with a warning.

        Kafka's consumers wait for their brokers for ever.
        """
        backoff = Backoff(self)
        while True:
            try:
                return await once()
            except (TimedOut, KafkaError) as error:
                if isinstance(error, KafkaError) and error.code not in COORDINATOR_ERRORS:
                    raise
                logger.warning("%s; trying again", error)
            await backoff.pause()

    # -- nodes

    async def refresh(self, *, timeout_ms: int | None = None, call: str | None = None) -> None:
        """Look up nodes, controller and cluster id."""
        if self._of_controllers:
            request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
            answer = await self._ask(request, None, versions=(1, 2), timeout_ms=timeout_ms, call=call)
            check(answer.error_code, answer.error_message)
            self.nodes = {each.broker_id: BrokerNode(each.broker_id, each.host, each.port) for each in answer.brokers}
            self.controller_id, self.cluster_id = answer.controller_id, answer.cluster_id
            return
        await self.metadata([], timeout_ms=timeout_ms, call=call)

    async def metadata(
        self,
        topics: list[str] | None,
        *,
        timeout_ms: int | None = None,
        call: str | None = None,
        create: bool = False,
    ) -> MetadataResponse:
        """Return the metadata of the given topics, or of all topics for None; `nodes` are updated.

        Args:
            create: missing topics are created, if the brokers create topics automatically.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(wanted, allow_auto_topic_creation=create)
        answer: MetadataResponse
        try:
            answer = await self.ask(request, versions=(4, 13), timeout_ms=timeout_ms, call=call)
        except KafkaError as error:  # Kafka before 0.11 would create a topic that is asked for by its name
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            request = MetadataRequest(None, allow_auto_topic_creation=True)
            answer = await self.ask(request, versions=(1, 3), timeout_ms=timeout_ms, call=call)
            answer.topics = [each for each in answer.topics if topics is None or each.name in topics]
        self.nodes = {
            each.node_id: BrokerNode(each.node_id, each.host, each.port, each.rack) for each in answer.brokers
        }
        self.controller_id, self.cluster_id = answer.controller_id, answer.cluster_id
        return answer

    async def ask_controller(self, request: Message, **options: Unpack[AskOptions]) -> Any:
        """Send a request to the controller, and again if the controller has been replaced."""
        call, until, backoff = options.get("call"), self.deadline(options.get("timeout_ms")), Backoff(self)
        while True:
            options["timeout_ms"] = left = max(1, until - self.deadline(0))
            if self.controller_id not in self.nodes:
                await self.refresh(call=call, timeout_ms=left)
            known = self.controller_id if self.controller_id in self.nodes else None
            options["replaceable"] = known is not None
            with suppress(Unreached):
                answer = await self._ask(request, known, **options)
                if not _is_elsewhere(answer) or self.deadline(0) >= until:
                    return answer
            self.controller_id = -1
            await backoff.pause(until)

    async def ask_each(self, request: Message, *, versions: Versions, call: str) -> dict[int, Any]:
        """Send a request to each node and return the answers by node id."""
        await self.refresh(call=f"{call}(api=METADATA)")
        nodes = sorted(self.nodes)
        answers = await asyncio.gather(*(self.ask(request, node, versions=versions, call=call) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    # -- coordinators

    async def coordinator(self, kind: int, key: str, *, timeout_ms: int | None = None, call: str | None = None) -> int:
        """Return the id of the coordinator of the group, transactional id or share partition `key`."""
        until = self.deadline(timeout_ms)
        found = await self.while_transient(lambda: self._find_coordinator(kind, key, until, call), until)
        check(found.error_code, found.error_message)
        known = self.nodes.get(found.node_id)
        rack = None if known is None else known.rack
        self.nodes[found.node_id] = BrokerNode(found.node_id, found.host, found.port, rack)
        return int(found.node_id)

    async def _find_coordinator(self, kind: int, key: str, until: int, call: str | None) -> Any:
        left = max(1, until - self.deadline(0))
        call = "findCoordinator" if call is None else f"{call}(api=FIND_COORDINATOR)"
        try:
            several = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = await self.ask(several, versions=(4, 6), timeout_ms=left, call=call)
            return answer.coordinators[0]
        except KafkaError as error:  # Kafka before 3.0
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return await self.ask(FindCoordinatorRequest(key, kind), versions=(0, 3), timeout_ms=left, call=call)

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Message,
        part: Callable[[Any], Any] = lambda answer: answer,
        *,
        passing: Collection[int] = (),
        **options: Any,
    ) -> Any:
        """Ask the coordinator, again while the answer says moved or loading.

        Args:
            part: returns the part of the answer with the error code, by default the whole answer.
            passing: further error codes that pass with time.

        Returns:
            The part.

        Raises:
            KafkaError: the error of the part.
        """
        until, call = self.deadline(), options.get("call")

        async def once() -> Any:
            node = await self.coordinator(kind, key, timeout_ms=max(1, until - self.deadline(0)), call=call)
            left = max(1, until - self.deadline(0))
            try:
                return part(await self.ask(request, node, timeout_ms=left, replaceable=True, **options))
            except Unreached:
                return PartitionError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        found = await self.while_transient(once, until, passing)
        check(found.error_code, getattr(found, "error_message", None))
        return found

    async def ask_group(
        self, group_id: str, request: Message, part: Callable[[Any], Any] = lambda answer: answer, **options: Any
    ) -> Any:
        return await self.ask_coordinator(CoordinatorType.GROUP, group_id, request, part, **options)

    async def while_transient(
        self, once: Callable[[], Awaitable[Any]], until: int | None = None, passing: Collection[int] = ()
    ) -> Any:
        """Repeat a call while the error code passes with the move of a coordinator, or is among `passing`."""
        until, backoff = self.deadline() if until is None else until, Backoff(self)
        while True:
            answer = await once()
            if answer.error_code not in {*COORDINATOR_ERRORS, *passing} or self.deadline(0) >= until:
                return answer
            await backoff.pause(until)


class Backoff:
    """The pauses between attempts that fail one after the other (Kafka: ExponentialBackoff)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._failures = 0

    async def pause(self, until: int | None = None) -> None:
        """Pause after a failure, at most until a time of the steady clock."""
        self._failures += 1
        pause_ms = self._client.pause_ms(self._failures)
        left_ms = pause_ms if until is None else max(0, until - self._client.deadline(0))
        await asyncio.sleep(min(pause_ms, left_ms) / 1000)

    def reset(self) -> None:
        """Begin again with the shortest pause, after a success."""
        self._failures = 0


async def wait_for(event: asyncio.Event, timeout_ms: float) -> bool:
    """Wait for an event; returns whether the event came in time."""
    try:
        async with asyncio.timeout(max(0, timeout_ms) / 1000):
            return await event.wait()
    except TimeoutError:
        return False


class PartitionError(NamedTuple):
    """The outcome of a request about partitions."""

    error_code: int


def first_error(answer: Any) -> PartitionError:
    """Return the first error of a partition in an answer."""
    codes = (each.error_code for topic in answer.topics for each in topic.partitions)
    return PartitionError(next(filter(None, codes), ErrorCode.NONE))


def _is_elsewhere(answer: Message) -> bool:
    """Return whether the answer, or a part of it, says NOT_CONTROLLER."""
    return any(name == "error_code" and value in _NOT_THE_CONTROLLER for _, name, value in leaves(answer))


def _check_login(error: LinkError) -> None:
    if isinstance(error.ended_by, NotLetIn):
        raise AuthenticationFailed(error.ended_by.told or str(error)) from None


def _sendable(client_id: str) -> str:
    """Return the client id, which is in the header of every request. Raises Unusable."""
    try:
        RequestHeader(client_id=client_id).encode(RequestHeader.MAX_VERSION)
    except EncodeError as error:
        raise Unusable(f"client.id can't be sent: {error}") from None
    return client_id


def _not_served(request: Message, error: NotServed | Unsendable, of_controllers: bool) -> KafkaError:
    name = ApiKey(request.API_KEY).name
    if isinstance(error, Unsendable):
        return KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be sent: {error}")
    if error.theirs is not None or error.__cause__ is not None:  # the cause: the versions in common lack a field
        return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The node does not support {name}: {error}")
    if of_controllers:
        text = "This Admin API is not yet supported when communicating directly with the controller quorum."
        return KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"The node does not support {name}")


# -- leaders of partitions


NOBODY = -1
# Another request, to a leader that is looked up anew, may be answered (Kafka: InvalidMetadataException).
LEADER_ERRORS = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_MAX_AGE_MS = 300_000
_OF_NAMES = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Invalid topics",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access topics",
}


def check_topic(name: str, code: int) -> None:
    """Raise KafkaError, in the words of Kafka's clients, for a topic with an invalid or a forbidden name."""
    if code in _OF_NAMES:
        raise KafkaError(code, f"{_OF_NAMES[ErrorCode(code)]}: [{name}]")


class KnownTopic(NamedTuple):
    """The id of a topic, and leaders and leader epochs in the order of the partitions.

    Brokers before Kafka 2.8 tell no id, which is ZERO_UUID then; brokers before 2.1 tell no epochs, which are -1 then.
    """

    topic_id: bytes
    leaders: list[int]
    epochs: list[int]


class Leaders:
    """The leader of each partition, by topic and in the order of the partitions; NOBODY where a partition has none.

    What is known of a topic is kept until `forget`, or for `metadata.max.age.ms`. Errors that pass (a topic is being
    created, a leader is being elected) are waited for.

    Args:
        create: missing topics are created, if the brokers create topics automatically.
    """

    def __init__(self, client: Client, *, create: bool = False) -> None:
        self._client = client
        self._create = create
        self._known: dict[str, KnownTopic] = {}
        self._until: dict[str, int] = {}
        self.max_age_ms = number(client.properties, "metadata.max.age.ms", _MAX_AGE_MS, least=0)

    def known(self, topic: str) -> list[int] | None:
        """Return the known leaders of a topic, without a request."""
        known = self._known.get(topic)
        return None if known is None else known.leaders

    def leader(self, partition: TopicPartition) -> int:
        leaders = self.known(partition.topic) or ()
        return leaders[partition.partition] if 0 <= partition.partition < len(leaders) else NOBODY

    def epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the known leader of a partition, -1 where no broker has told it."""
        known = self._known.get(partition.topic)
        return -1 if known is None else known.epochs[partition.partition]

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, ZERO_UUID where no broker has told it."""
        known = self._known.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def forget(self, topic: str) -> None:
        """Forget the leaders of a topic, after a wrong answer or a long time."""
        self._until[topic] = 0

    def stale(self, topics: Iterable[str]) -> set[str]:
        """Return which of the topics are to be looked up again."""
        now = self._client.deadline(0)
        return {topic for topic in topics if self._until.get(topic, now + 1) <= now}

    async def of(self, topic: str, timeout_ms: int) -> list[int]:
        """Wait for the leaders of a topic. Raises TimedOut and KafkaError."""
        until, backoff = self._client.deadline(timeout_ms), Backoff(self._client)
        while topic not in self._known:
            with suppress(TimedOut):
                await self.ask([topic], max(1, until - self._client.deadline(0)))
            if topic not in self._known:
                if self._client.deadline(0) >= until:
                    raise TimedOut(f"Topic {topic} not present in metadata after {timeout_ms} ms.")
                await backoff.pause(until)
        return self._known[topic].leaders

    async def ask(self, topics: Iterable[str], timeout_ms: int | None = None) -> None:
        """Look up the given topics once. Raises KafkaError for the first permanent error."""
        for error in (await self.look_up(topics, timeout_ms)).values():
            raise error

    async def look_up(self, topics: Iterable[str], timeout_ms: int | None = None) -> dict[str, KafkaError]:
        """Look up the given topics once, and return the permanent errors by topic; such topics are not kept."""
        answer = await self._client.metadata(list(topics), timeout_ms=timeout_ms, create=self._create)
        refused: dict[str, KafkaError] = {}
        for each in answer.topics:
            name = each.name or ""
            try:
                self._note(each)
            except KafkaError as error:
                refused[name] = error
                self._known.pop(name, None)
                self._until.pop(name, None)
        return refused

    def _note(self, found: MetadataResponseTopic) -> None:
        assert found.name is not None
        code = found.error_code
        check_topic(found.name, code)
        if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
            raise KafkaError(code)
        if code == ErrorCode.NONE and found.partitions:
            count = 1 + max(each.partition_index for each in found.partitions)
            leaders, epochs = [NOBODY] * count, [-1] * count
            for each in found.partitions:
                leaders[each.partition_index], epochs[each.partition_index] = each.leader_id, each.leader_epoch
            self._known[found.name] = KnownTopic(found.topic_id, leaders, epochs)
            self._until[found.name] = self._client.deadline(self.max_age_ms if NOBODY not in leaders else 0)
        elif code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._known.pop(found.name, None)
