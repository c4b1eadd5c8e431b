"""The base of every simulated client: requests over its own links, retries, knowledge of leaders.

Rule: a script is a generator that yields what it waits for (`Ask`, `Wait`) and gets the answer; it learns of brokers
only from their answers. A retriable error or a lost link is tried again for as long as it takes; any other error that
the script does not expect is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from pykafka_broker.peers import Address, LinkError, Versions
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.testing.simulation.link import SimLink
from pykafka_broker.testing.simulation.network import HostPort, Network
from pykafka_broker.testing.simulation.timeline import Host
from tests.simulation.history import History

REQUEST_MS = 3_000
BACKOFF_MS = 60


class Ask(NamedTuple):
    """A request to a node; the answer is a Message or a LinkError.

    unanswered: the node sends no answer, so the script gets an empty one as soon as the request is sent.
    """

    place: HostPort
    request: Message
    versions: Versions | None = None
    unanswered: bool = False


class Wait(NamedTuple):
    """A pause of a script."""

    ms: int


Script = Generator[Ask | Wait, Any, Any]


class SimClient(Host):
    """A client on a machine of its own. stopping: the script is to finish its work and begin nothing new."""

    def __init__(self, network: Network, name: str, bootstrap: list[HostPort], history: History) -> None:
        super().__init__(network.timeline, name)
        network.hosts[name] = self
        self.network = network
        self.random = network.random
        self.history = history
        self.stopping = False
        self.done = False
        self.bootstrap = bootstrap
        self._nodes: dict[int, HostPort] = {}
        self.leaders: dict[PartitionKey, tuple[int, int]] = {}  # with the epoch
        self.topic_ids: dict[str, bytes] = {}
        self._links: dict[HostPort, SimLink] = {}
        self._coordinators: dict[tuple[int, str], HostPort] = {}
        self.rack = ""  # where a client reads from the closest replica
        self._preferred: dict[PartitionKey, HostPort] = {}

    # -- the script

    def begin(self, script: Script) -> None:
        """Run the script from the next turn on."""
        self.soon(lambda: self._step(script, None))

    def _step(self, script: Script, answer: Any) -> None:
        try:
            wanted = script.send(answer)
        except StopIteration:
            self.done = True
            return
        if isinstance(wanted, Wait):
            self.later(wanted.ms, lambda: self._step(script, None))
        else:
            self._send(wanted, lambda reply: self._step(script, reply))

    def _send(self, ask: Ask, on_reply: Callable[[Message | LinkError], None]) -> None:
        link = self._links.get(ask.place)
        if link is None:
            address = Address(*ask.place, "PLAINTEXT")
            link = self._links[ask.place] = SimLink(self.network, self, address, self.name)
        link.send(ask.request, on_reply, REQUEST_MS, versions=ask.versions, copied=True, unanswered=ask.unanswered)

    # -- steps of scripts

    def backoff(self) -> Wait:
        """Return the wait before the next try."""
        return Wait(BACKOFF_MS // 2 + self.random.randrange(BACKOFF_MS))

    def leader(self, partition: PartitionKey) -> Generator[Ask | Wait, Any, tuple[HostPort, int]]:
        """Return the address and epoch of the partition's leader, as far as this client knows."""
        while True:
            node, epoch = self.leaders.get(partition, (-1, -1))
            if node in self._nodes:
                return self._nodes[node], epoch
            yield from self.refresh(partition[0])
            if self.leaders.get(partition, (-1, -1))[0] not in self._nodes:
                yield self.backoff()

    def refresh(self, topic: str) -> Script:
        """Ask any known broker for the topic's leaders."""
        known = sorted({*self.bootstrap, *self._nodes.values()})
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = yield Ask(self.random.choice(known), request, (9, 12))
        if isinstance(answer, LinkError):
            return
        self._nodes.update({each.node_id: (each.host, each.port) for each in answer.brokers})
        for described in answer.topics:
            if described.error_code == ErrorCode.NONE:
                self.topic_ids[described.name] = described.topic_id
            for each in described.partitions:
                place = described.name, each.partition_index
                if each.leader_epoch >= self.leaders.get(place, (-1, -1))[1]:  # as clients do: no way back
                    self.leaders[place] = each.leader_id, each.leader_epoch

    def forget_leader(self, partition: PartitionKey) -> None:
        """Forget the partition's leader but not its epoch, so that older metadata is not believed."""
        known = self.leaders.get(partition)
        if known is not None:
            self.leaders[partition] = -1, known[1]

    def preferred(self, partition: PartitionKey) -> HostPort | None:
        """Return the follower that the leader has named; a client looks for a closer one now and then."""
        if partition in self._preferred and self.random.random() < 0.05:
            self.prefer(partition, -1)
        return self._preferred.get(partition)

    def prefer(self, partition: PartitionKey, node: int) -> None:
        """Read from this follower from now on; -1, or a node that is not known: from the leader."""
        self._preferred.pop(partition, None)
        if node in self._nodes:
            self._preferred[partition] = self._nodes[node]

    def coordinator(self, kind: int, key: str) -> Generator[Ask | Wait, Any, HostPort]:
        """Return the address of the coordinator of a group (kind 0) or of a transactional id (kind 1)."""
        while (kind, key) not in self._coordinators:
            known = sorted({*self.bootstrap, *self._nodes.values()})
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = yield Ask(self.random.choice(known), request, (4, 4))
            if isinstance(answer, LinkError):
                continue
            found = answer.coordinators[0]
            if found.error_code == ErrorCode.NONE:
                self._coordinators[kind, key] = found.host, found.port
            else:
                self.expect(found.error_code, "FindCoordinator")
                yield self.backoff()
        return self._coordinators[kind, key]

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def expect(self, code: int, of: str, *others: ErrorCode) -> bool:
        """Return whether to try again; an error that is neither retriable nor among `others` is a violation."""
        error = ErrorCode(code)
        self.history.did[f"{of}: {error.name}"] += 1
        self.history.rare["asked a broker for a partition unknown to it"] += (
            error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        if error.retriable:
            return True
        if error not in others:
            self.history.violation(f"{self.name} was told {error.name} for {of}")
        return False
