"""ZooKeeper beside the listeners of the process: the metadata are shown there, and tools' wishes are asked of the
broker.

Rule: the loop never waits for ZooKeeper. The loop collects the changes of the metadata, hands them to the thread of the
session, and asks the broker for what the thread has found, as a client with all rights. Whatever fails is done anew as
a whole, so no collected change has to be remembered.

The session is the seam between the loop and kazoo, whose client works with threads. Everything that asks ZooKeeper is a
function of the client, handed to `run`, which calls one function after the other in the session's only thread. What
kazoo tells from threads of its own (a watch has fired, the connection is another one) reaches the loop by
`call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from pykafka_broker.cluster.image import MetadataDelta, MetadataImage, QuotaEntity
from pykafka_broker.cluster.replication_control import is_reassigning
from pykafka_broker.config import BrokerConfig
from pykafka_broker.control.control import InProcessClient
from pykafka_broker.control.problems import Problem
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.serving import ProcessExtension, Running
from pykafka_broker.zookeeper import forms, wishes
from pykafka_broker.zookeeper.controller import Found, Reassigned, Role, ShownMetadata, ZooKeeperController
from pykafka_broker.zookeeper.forms import ShownTopic
from pykafka_broker.zookeeper.nodes import Znodes

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

log = logging.getLogger(__name__)

_LOOK_S = 1.0  # between two looks at the session, and before what has failed is tried again


R = TypeVar("R")
# ZooKeeper can't be asked now, or the session has ended: kazoo connects again by itself, and the caller asks again.
UNREACHABLE = (KazooException, KazooTimeoutError)


class ZooKeeperSession:
    """A session with the ZooKeeper of `zookeeper.connect`, renewed by kazoo when it has expired.

    connect: addresses, with a chroot behind them if there is one: `host:2181,other:2181/kafka`.
    on_event: called on the loop, with the path of a node that has changed, or with None when the connection has.
    """

    def __init__(
        self,
        connect: str,
        timeout_ms: int,
        loop: asyncio.AbstractEventLoop,
        on_event: Callable[[str | None], None],
    ) -> None:
        servers, slash, chroot = connect.partition("/")
        self._servers = servers
        self._chroot = (slash + chroot).rstrip("/")
        self._loop = loop
        self._on_event = on_event
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zookeeper")
        self._client = KazooClient(hosts=servers, timeout=timeout_ms / 1000)
        self._client.add_listener(lambda state: self._tell(None))

    async def open(self, timeout_ms: int) -> None:
        """Connect, and make the chroot. Raises OSError if no ZooKeeper has answered in time."""
        try:
            await self.run(partial(self._start, timeout_ms=timeout_ms))
        except UNREACHABLE as error:
            reason = f"no ZooKeeper answers within {timeout_ms} ms ({error})"
            raise OSError(errno.ETIMEDOUT, reason, self._servers) from error

    def _start(self, client: Any, timeout_ms: int) -> None:
        client.start(timeout_ms / 1000)
        if self._chroot:
            client.ensure_path(self._chroot)
            client.chroot = self._chroot

    async def run(self, work: Callable[[Any], R]) -> R:
        """Return what `work` returns of the client, called in the session's thread. Raises one of UNREACHABLE."""
        return await self._loop.run_in_executor(self._thread, work, self._client)

    def watch(self, event: Any) -> None:
        """Tell the loop of the path that an event names. To be given to kazoo, which calls it in another thread."""
        if event.path:
            self._tell(self._client.unchroot(event.path))

    def _tell(self, path: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_event, path)

    async def close(self) -> None:
        """End the session, and with it the ephemeral nodes. What still runs in the thread fails."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with contextlib.suppress(*UNREACHABLE):
            self._client.stop()
        with contextlib.suppress(*UNREACHABLE):
            self._client.close()
        self._thread.shutdown()


class ZooKeeperExtension(ProcessExtension):
    """The broker in the ZooKeeper of `zookeeper.connect`, as an extension of the process; `other` is opened before."""

    def __init__(self, config: BrokerConfig, other: ProcessExtension | None) -> None:
        super().__init__(other)
        self._config = config
        self._mirror: ZooKeeperMirror | None = None

    async def open(self, running: Running) -> None:
        """Register the broker, before clients are told to connect. Raises OSError without a ZooKeeper."""
        await super().open(running)
        if running.server.broker.node.roles.broker:  # a controller alone is in no ZooKeeper
            self._mirror = ZooKeeperMirror(self._config, running)
            await self._mirror.open()

    async def close(self) -> None:
        """Take the broker out of ZooKeeper."""
        if self._mirror is not None:
            await self._mirror.close()
        await super().close()


class ZooKeeperMirror:
    """The metadata of the present broker of the process, kept in step with ZooKeeper."""

    def __init__(self, config: BrokerConfig, running: Running) -> None:
        own = config.own
        self._running = running
        self._release = forms.release_shown(own)
        self._session_ms: int = config.zookeeper_session_timeout_ms
        self._connection_ms: int = config.zookeeper_connection_timeout_ms or self._session_ms
        self._started_ms = running.clock.wall
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._inside = InProcessClient(running)
        loop = running.turns.loop
        self._session = ZooKeeperSession(config.zookeeper_connect or "", self._session_ms, loop, self._on_event)
        self._controller: ZooKeeperController
        self._broker: Broker | None = None  # the one whose changes are followed
        self._whole = True  # everything has to be shown
        self._names: frozenset[str] = frozenset()  # the topics when changes were last collected
        self._topics: set[str] = set()  # changed since
        self._gone: set[str] = set()  # deleted since
        self._configs: set[str] = set()  # paths below /config, changed since
        self._touched: set[str] = set()  # nodes whose watches have fired
        self._done: list[str] = []  # nodes of /admin that have been obeyed
        self._reassigning: list[Reassigned] | None = None

    # -- life

    async def open(self) -> None:
        """Connect and register. Raises OSError."""
        await self._session.open(self._connection_ms)
        nodes = await self._session.run(lambda client: Znodes(client, self._session.watch))
        self._controller = ZooKeeperController(nodes, self._release, self._running.server.broker.node.id)
        try:
            async with asyncio.timeout(2 * self._session_ms / 1000):  # by then a killed broker's session is over
                while not (await self._take_part()).registered:
                    await self._moved.wait()
                    self._moved.clear()
            await self._follow()
        except TimeoutError:
            reason = f"{forms.IDS}/{self._running.server.broker.node.id} in ZooKeeper belongs to another broker"
            raise OSError(errno.EEXIST, reason) from None
        except UNREACHABLE as error:
            raise OSError(errno.EIO, f"ZooKeeper: {error!r}") from error
        self._task = self._running.turns.loop.create_task(self._go_on())

    async def close(self) -> None:
        """End the session: the broker's ephemeral nodes go at once."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._session.close()

    async def _go_on(self) -> None:
        told = False
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._moved.wait()
            self._moved.clear()
            try:
                await self._follow()
                told = False
            except UNREACHABLE as error:
                if not told:
                    log.warning("ZooKeeper can't be asked now: %r", error)
                told = self._whole = True
            except Exception:
                log.exception("a defect while following ZooKeeper")
                self._whole = True
                await asyncio.sleep(_LOOK_S)

    # -- changes on both sides

    def _on_event(self, path: str | None) -> None:
        if path is not None:
            self._touched.add(path)
        self._moved.set()

    def _on_delta(self, delta: MetadataDelta) -> None:
        changed = (topic.name for topic, _ in (*delta.new_partitions, *delta.changed_partitions))
        self._topics.update(changed)
        self._configs |= _paths(delta.configs, delta.quotas)
        self._gone |= {topic.name for topic in delta.deleted}
        self._gone -= {topic.name for topic in delta.created}
        self._moved.set()

    def _look_at_broker(self) -> None:
        """Follow the present broker: a reset of the process puts another one into its place."""
        broker = self._running.server.broker
        if broker is not self._broker:
            self._broker, self._whole = broker, True
            broker.node.subscribe(self._on_delta)
            if (0, 11) <= self._release < (3,):
                broker.node.producer_ids.prepare()  # as these releases do at their start

    @property
    def _image(self) -> MetadataImage:
        return self._running.server.broker.node.image

    async def _take_part(self) -> Role:
        self._look_at_broker()
        node = self._running.server.broker.node
        if node.id not in self._image.brokers:  # somebody has taken it out of the cluster
            return Role(registered=False, active=False, elected=False)
        own = forms.own_node(self._release, self._image.brokers[node.id], self._started_ms)
        wall = self._running.clock.wall
        return await self._session.run(lambda client: self._controller.take_part(own, wall))

    async def _follow(self) -> None:
        """Make one step: show what has changed, and obey what was found."""
        role = await self._take_part()
        self._whole |= role.elected
        if not role.active:
            self._whole = True  # when this broker is elected
            for collected in (self._topics, self._configs, self._touched):
                collected.clear()
            return
        shown = self._collect()
        found = await self._session.run(lambda client: self._controller.follow(shown))
        await self._obey(found)

    def _collect(self) -> ShownMetadata:
        """Return what has to be shown, and begin to collect anew."""
        image, node = self._image, self._running.server.broker.node
        names = frozenset(image.topics)
        gone = (self._gone | (self._names - names)) - names
        topics = names if self._whole else self._topics & names
        # Every topic has settings in ZooKeeper, if only empty ones.
        configs = self._configs | {f"topics/{name}" for name in topics}
        configs |= _paths(image.configs, image.client_quotas) if self._whole else set()
        shown = ShownMetadata(
            self._whole,
            names,
            {name: ShownTopic(image.topics[name].id, dict(image.topics[name].partitions)) for name in topics},
            gone,
            {path: forms.settings(image, path) for path in configs if forms.is_shown(path, names)},
            [*forms.fixed(self._release, node.cluster_id, image, node.id)],
            self._touched,
            self._done,
            self._unfinished(),
            self._running.clock.wall,
        )
        self._whole, self._names = False, names
        self._topics, self._gone, self._configs, self._touched, self._done = set(), set(), set(), set(), []
        return shown

    def _unfinished(self) -> list[Reassigned] | None:
        """Return what is left of the reassignment that was asked for; None without one."""
        if self._reassigning is None:
            return None
        self._reassigning = [each for each in self._reassigning if not self._is_reassigned(*each)]
        left, self._reassigning = self._reassigning, self._reassigning or None
        return left

    def _is_reassigned(self, topic: str, index: int, brokers: list[int]) -> bool:
        partition = self._image.partition(topic, index)
        return partition is None or (not is_reassigning(partition) and [*partition.replicas] == brokers)

    # -- wishes

    async def _obey(self, found: Found) -> None:
        for wish in found.wishes:
            answer = await self._ask(wish.path, wish.request)
            if wish.path == forms.REASSIGNMENTS:
                self._reassigning = wishes.begun_reassignments(found.reassignment, answer)
            elif wish.path.startswith("/admin/"):
                self._done.append(wish.path)
            self._moved.set()
        for path, values in found.configs.items():
            request = wishes.config_change(path, values, self._image)
            if request is not None:
                await self._ask(f"{forms.CONFIGS}/{path}", request)

    async def _ask(self, path: str, request: Message) -> Any:
        """Ask the broker for what was written into a node, and log why it is refused."""
        try:
            answer = await self._inside.ask(request)
        except Problem as error:
            log.warning("what was written into %s in ZooKeeper can't be done: %s", path, error)
            return None
        for code, message in wishes.refusals(answer):
            log.warning("what was written into %s in ZooKeeper is refused: %s (%s)", path, message, code.name)
        return answer


def _paths(resources: Iterable[tuple[int, str]], entities: Iterable[QuotaEntity]) -> set[str]:
    """Return the paths below /config of what has settings or quotas."""
    found = (forms.resource_path(kind, name) for kind, name in resources)
    return {path for path in found if path is not None} | {forms.quota_path(entity) for entity in entities}
