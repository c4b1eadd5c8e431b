"""A node of a simulated cluster: a whole `Broker` on a disk in memory, behind a door on the virtual network.

Rule: everything of the package is real but its sockets, threads, disk, clock and chance. A defect that the broker would
log and survive ends the simulation.

Requests come as frames to the router, one after the other on each connection, as `server/connection.py` does it; the
buffer of a request is wiped when its handler has returned. A listener with SASL has the real connections of `server/`
over a stream of bytes without a socket (`StreamEnd`). What the control API needs of a `Server` and its turns is here
too, so that it opens on a simulated node as on a real one.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.controller_routes import ControllerRouter
from pykafka_broker.broker.requests.router import PendingReply, new_router
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.broker.waiting.future import Parked, Purgatory
from pykafka_broker.cluster.formatting import FormatRequest, KnownLevels, StorageFormatter
from pykafka_broker.cluster.formatting import StorageNode as FormatNode
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import FrameError
from pykafka_broker.log.jobs import Job
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.channel import FrameReader, RequestMemory
from pykafka_broker.server.connection import Dispatching
from pykafka_broker.server.event_loop import SCRATCH_BYTES, BufferPool, ResponseBatch
from pykafka_broker.server.listeners import Listener, listeners_of
from pykafka_broker.server.serving import BrokerShare, start_broker
from pykafka_broker.server.transport import READ, WRITE, FilePiece
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from pykafka_broker.testing.simulation.link import SimPeers, flat
from pykafka_broker.testing.simulation.network import End, Network
from pykafka_broker.testing.simulation.timeline import Event, Host, Step

# -- connections, and their server


_SCRATCH = memoryview(bytearray(SCRATCH_BYTES))  # nothing in it survives the call in which it was filled
_FRAMES_A_TURN = 256
_LOOK_MS = 30_000  # the next deadline of a node that has none
NewConnection = Callable[[End, ConnectionContext], Any]


class SimTurns:
    """The turns of a node (`EventLoop`). loop: asyncio's, where there is one."""

    def __init__(self, host: Host) -> None:
        self.loop: Any = None
        self.clock = host.clock
        self.call_soon = host.soon
        self.run = host.turn
        self.observers: list[Step] = []  # called at the end of each turn
        self.scratch = _SCRATCH
        self.buffers = BufferPool()
        self.share = _FRAMES_A_TURN
        self.answers = ResponseBatch()
        self.in_parts = 0
        self.rests = False  # no client is served
        self._host = host
        self._streams: dict[int, StreamEnd] = {}
        self._numbers = itertools.count()
        self._rested: list[Step] = []

    # -- streams, by a number in the place of a descriptor

    def attach(self, stream: StreamEnd) -> int:
        number = next(self._numbers)
        self._streams[number] = stream
        return number

    def watch(self, source: Any, fd: int, events: int) -> None:
        self._streams[fd].source = source
        self.change(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._streams[fd].events = events
        self._host.soon(self._streams[fd].serve)

    def forget(self, fd: int) -> None:
        self._streams.pop(fd).source = None

    # -- rest

    def pause(self) -> None:
        """Serve no client until `resume`."""
        self.rests = True

    def resume(self) -> None:
        self.rests = False
        rested, self._rested = self._rested, []
        for serve in rested:
            self._host.soon(serve)

    def serve_later(self, serve: Step) -> None:
        """Call `serve` after the rest."""
        self._rested.append(serve)


class SimServer:
    """The server of a node's process (`Server`)."""

    nobody_yields = stopping = killed = False

    def __init__(self, node: SimNode, broker: Broker) -> None:
        self.broker = broker
        self.turns: Any = SimTurns(node)
        self._router = new_router(broker.services)
        self.router: Dispatching = self._router  # or one in front of it
        self.admit: Callable[[Any, ConnectionContext], bool] | None = None
        self.request_memory = RequestMemory(0, node.soon)
        self._node = node
        self._connections: dict[int, Any] = {}
        self._makers: dict[str, NewConnection] = {}

    @property
    def purgatory(self) -> Purgatory:
        return self.broker.services.purgatory

    def ways(self) -> dict[ApiKey, tuple[int, int]]:
        return self._router.ways()

    def frame_reader(self, stall: Step) -> FrameReader:
        return FrameReader(_SCRATCH, self.turns.buffers, self.broker.config.socket_request_max_bytes)

    # -- connections

    def listen(self, listener: Listener) -> SimDoor:
        """Return the door of a listener."""
        self._makers[listener.name] = self._maker_for(listener)
        return SimDoor(self._node, self, listener)

    def _maker_for(self, listener: Listener) -> NewConnection:
        if listener.for_controllers:
            router = ControllerRouter(self.broker.services)
            return lambda end, context: Served(self._node, self, end, context, router)
        if listener.has_sasl:
            from pykafka_broker.server.named_connection import sasl_connections

            serving: Any = self
            new_connection, check = sasl_connections(listener.name, serving)
            self.broker.check_listeners_by([check])
            return lambda end, context: new_connection(serving, StreamEnd(self.turns, end), context)
        return lambda end, context: Served(self._node, self, end, context)

    def serve(self, end: End, context: ConnectionContext) -> None:
        """Serve a client that has been let in."""
        self._connections[context.id] = self._makers[context.listener](end, context)
        end.hear_again()

    def turn_away(self, end: End, context: ConnectionContext) -> None:
        end.close()

    def forget(self, connection: Any, why: str) -> None:
        """Forget a connection that has ended."""
        if self._connections.pop(connection.context.id, None) is not None:
            self.broker.connection_closed(connection.context)

    @property
    def connections(self) -> Iterable[Any]:
        """Return the connections of clients and of other nodes."""
        return self._connections.values()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connection(self, id: int) -> Any:
        return self._connections.get(id)

    # -- time, as the control API moves it

    def hold_timer(self) -> None:
        self._node.arm_anew()

    def release_timer(self) -> None:
        self._node.arm_anew()

    def next_deadline(self) -> int:
        deadline = self.broker.next_deadline()
        return self.turns.clock.now + _LOOK_MS if deadline is None else deadline

    def do_due(self) -> None:
        self.broker.on_deadline()
        self._node.settle()

    def look_now(self) -> None:
        self.broker.look_now()


class SimDoor:
    """A listener of a node."""

    def __init__(self, node: SimNode, server: SimServer, listener: Listener) -> None:
        self.host: Host = node
        self._node = node
        self._server = server
        self._listener = listener

    def accept(self, end: End) -> None:
        context = self._node.next_connection(self._listener)
        if self._server.admit is None or self._server.admit(end, context):
            self._server.serve(end, context)


class Served:
    """A connection of a client or of another node. router: of a listener for controllers."""

    def __init__(
        self,
        node: SimNode,
        server: SimServer,
        end: End,
        context: ConnectionContext,
        router: Dispatching | None = None,
    ) -> None:
        self.context = context
        self._node = node
        self._server = server
        self._end = end
        self._own_router = router
        self._waiting: deque[bytes] = deque()
        self._parked: PendingReply | None = None
        end.ear = self

    def on_frame(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._serve()

    def on_end(self, why: str) -> None:
        self._waiting.clear()
        if self._parked is not None:
            pending, self._parked = self._parked, None
            self._server.purgatory.cancel(pending.future)
        self._server.forget(self, why)

    def hurry(self) -> None:
        """Answer a fetch that waits with the records at hand."""
        if self._parked is not None and self._parked.yields and isinstance(self._parked.future, Parked):
            self._server.purgatory.hurry(self._parked.future, self._node.clock.now)

    def _serve(self) -> None:
        while self._waiting and self._end.open:
            if self._server.turns.rests:
                self._server.turns.serve_later(self._serve)
                return
            if self._parked is not None:
                self.hurry()
                if self._parked is not None:
                    return
            self._dispatch(self._waiting.popleft())

    def _dispatch(self, frame: bytes) -> None:
        buffer = bytearray(frame)
        router = self._own_router or self._server.router
        try:
            result = router.dispatch(self.context, memoryview(buffer)[4:])
        except FrameError as error:
            self._refuse(error)
            return
        finally:
            buffer[:] = bytes(len(buffer))
        if isinstance(result, PendingReply):
            self._parked = result
            result.future.add_done_callback(self._on_reply)
        elif result is not None:
            self.send(result)

    def _on_reply(self, _: object) -> None:
        pending, self._parked = self._parked, None
        if pending is None or not self._end.open:
            return
        try:
            pieces = pending.pieces()
        except FrameError as error:
            self._refuse(error)
            return
        if pieces:
            self.send(pieces)
        self._node.soon(self._serve)

    def send(self, pieces: list[Any]) -> None:
        """Send a frame, or the part of one that a fault leaves."""
        try:
            self._end.send(flat(pieces))
        except OSError as error:  # of the disk that records come from
            self.close(str(error))

    def close(self, why: str) -> None:
        """Close the connection."""
        self._end.close()
        self.on_end(why)

    def _refuse(self, error: FrameError) -> None:
        wanted = "acks=0" in str(error) or "fault " in str(error)  # all that a client hears of it then is the end
        if not wanted:
            self._node.violations.append(f"{self._node.name} refused a frame of {self._end.far.host.name}: {error}")
        self.close(str(error))


class StreamEnd:
    """A side of a connection as a stream of bytes (`Transport`), with the channel that reads it.

    source: the channel; None once it is closed. events: what it waits for.
    """

    read_on, write_on = READ, WRITE
    has_buffered = False

    def __init__(self, turns: SimTurns, end: End) -> None:
        self.source: Any = None
        self.events = 0
        self._turns = turns
        self._end = end
        self._arrived = bytearray()
        self._unsent = bytearray()
        self._over = False
        self._number = turns.attach(self)
        end.ear = self

    # -- from the network

    def on_frame(self, frame: bytes) -> None:
        self._arrived += frame
        self.serve()

    def on_end(self, why: str) -> None:
        self._over = True
        self.serve()

    def serve(self) -> None:
        """Tell the channel of bytes that have arrived, once a turn as long as it reads."""
        if self.source is None or not self.events & READ or not (self._arrived or self._over):
            return
        if self._turns.rests:
            self._turns.serve_later(self.serve)
            return
        self.source.on_ready(READ)
        if self._arrived or self._over:
            self._turns.call_soon(self.serve)

    # -- from the channel

    def has_input(self) -> bool:
        return bool(self._arrived)

    def recv_into(self, target: memoryview) -> int:
        if not self._arrived and not self._over:
            raise BlockingIOError
        count = min(len(target), len(self._arrived))
        target[:count] = self._arrived[:count]
        del self._arrived[:count]
        return count

    def send(self, data: Buffer, flags: int) -> int:
        unsent = self._unsent
        unsent += data
        while len(unsent) >= 4 and len(unsent) >= (size := 4 + int.from_bytes(unsent[:4], "big")):
            self._end.send(bytes(unsent[:size]))
            del unsent[:size]
        return len(data)

    def send_file(self, piece: FilePiece) -> int:
        whole: Any = piece
        return self.send(whole.read(), 0)

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        self._end.close()


# -- the node


DATA = "/data/logs"
QUICK_DISK_MS = 8
_CONFIGS = 64  # of that many nodes are kept
OnBroker = Callable[["SimNode"], None]


class SimNode(Host):
    """A node with its disk. `settings` are those of its server.properties; `on_made` sees each new broker before the
    broker starts, and `on_open` before clients are let in.
    """

    def __init__(self, network: Network, id: int, settings: Mapping[str, str], random: Random) -> None:
        super().__init__(network.timeline, f"n{id}")
        self.id = id
        self.network = network
        self.random = random
        self.settings = {"node.id": str(id), "log.dirs": DATA, **settings}
        self.directories = self.settings["log.dirs"].split(",")
        self.is_broker = "broker" in self.settings.get("process.roles", "broker")
        self.is_controller = "controller" in self.settings.get("process.roles", "controller")
        self.disk: CrashFileSystem
        self.put_disk(CrashFileSystem())
        self.disk_ms = QUICK_DISK_MS  # the longest that a job waits, and takes
        self.running = self.leaving = False
        self.has_lost_disks = False  # this process
        self.on_made: OnBroker = _nothing
        self.on_open: OnBroker = _nothing
        self.server: SimServer  # of the present process
        self.violations: list[str] = []
        self.cluster_id = ""  # of the last format
        self._timer: Event | None = None
        self._timer_due = 0  # by the clock of this node
        self._connections = 0
        self._unfinished: dict[Job, list[OSError | None]] = {}  # with the outcome of those that have run
        network.hosts[self.name] = self

    # -- life

    def start(self) -> None:
        """Start a new process."""
        self.network.dark.discard(self.name)
        self.life += 1
        self.running, self.leaving = True, False
        self.has_lost_disks = bool(self.disk.broken)
        self._timer = None
        self._unfinished.clear()
        self.set_clock()
        self.broker = self.new_broker()
        self.server = SimServer(self, self.broker)
        self.on_made(self)
        try:
            self.turn(self._begin)
        except (LogDirectoryError, OSError):  # a process ends with either
            if not self.has_lost_disks:
                raise
            self.kill()

    def new_broker(self, setup: Setup = NO_SETUP, share: BrokerShare | None = None) -> Broker:
        """Make a broker and do not start it. share: files and threads instead of the disk and the jobs here."""
        broker = Broker(
            _config_of(tuple(self.settings.items())),
            self.clock,
            new_uuid=self._new_uuid,
            new_session_id=lambda: self.random.randrange(1, 1 << 31),
            submit=self.submit if share is None else share.submit,
            fs=self.disk if share is None else share.files,
            setup=setup,
            later=self.soon,
            peers=SimPeers(self.network, self),
        )
        broker.on_useless = lambda: self.soon(self.kill)
        return broker

    def _begin(self) -> None:
        listeners = listeners_of(self.broker.config)
        startup = self.broker.startup
        if startup is not None:
            startup.on_unfenced = lambda: self.open(listeners)
            startup.on_refused = self._refused
        start_broker(self.broker, listeners)
        if startup is None:
            self.open(listeners)

    def open(self, listeners: list[Listener]) -> None:
        """Let clients and other nodes in."""
        self.on_open(self)
        for listener in listeners:
            self.network.doors[listener.host, listener.port] = self.server.listen(listener)

    def _refused(self, why: str) -> None:
        if self.has_lost_disks:
            self.soon(self.kill)  # as a process ends that can't do without
        else:
            self.violations.append(f"{self.name} is refused: {why}")

    def format(self, cluster_id: str, request: FormatRequest | None = None, known: KnownLevels | None = None) -> None:
        """Format the disk as `pykafka-broker format` does, for a node of a cluster.

        Args:
            request: as what; by default as the newest release.
            known: the levels of features of the cluster's release.
        """
        self.cluster_id = cluster_id
        config = _config_of(tuple(self.settings.items()))
        is_controller = "controller" in (config.process_roles or ())
        node = FormatNode(
            self.id,
            self.directories,
            self.directories[0],
            is_controller,
            bool(config["controller.quorum.voters"]),
            None,
            known or KnownLevels(),
        )
        formatter = StorageFormatter(
            self.disk,
            node,
            request or FormatRequest(cluster_id),
            now=self.timeline.now,
            new_uuid=self._new_uuid,
            new_salt=lambda: b"salt",
        )
        for _ in formatter.run():
            pass
        self.disk.sync_all("/data")

    def put_disk(self, disk: CrashFileSystem) -> None:
        """Put a copy of a disk into the machine, whose process does not run."""
        self.disk = disk.after_crash(keep=True)
        self.disk.now = lambda: self.clock.wall

    def _new_uuid(self) -> bytes:
        return bytes([self.random.randrange(128)]) + self.random.randbytes(15)

    def stop(self) -> None:
        """Stop in order: other nodes lead before this one goes, if they can be told."""
        self.leaving = True
        if self.broker.startup is None:
            self._end()
        else:
            self.turn(lambda: self.broker.leave(lambda: self._end_soon(self.life)))

    def _end_soon(self, life: int) -> None:
        def end() -> None:
            if self.life == life and self.running:
                self._end()

        self.timeline.after(0, end)

    def _end(self) -> None:
        """End the broker with the marker of a clean shutdown."""
        self.network.process_ended(self)
        self.broker.stop_jobs()
        while self._unfinished:
            job, has_run = self._unfinished.popitem()
            _conclude(job, has_run[0] if has_run else _outcome(job))
        self.broker.stop()
        self._ended()

    def kill(self) -> None:
        """End as with SIGKILL: the system keeps everything that was written."""
        self.network.process_ended(self)
        self._ended()
        self.disk = self.disk.after_crash(keep=True)

    def cut_power(self) -> None:
        """Cut the power: everything that was not synced may be gone, and nobody is told."""
        self.network.went_dark(self)
        self._ended()
        self.disk = self.disk.after_crash(self.random.randrange(1 << 30))

    def break_disk(self, directory: str, error: int) -> None:
        """Let a directory fail from now on, until `mend_disks`; its files stay there."""
        self.disk.broken[directory] = error
        self.has_lost_disks = True

    def fail_once(self, path: str, error: int) -> None:
        """Let the next call that needs a file fail, and no other."""
        self.disk.once.add(path)
        self.break_disk(path, error)

    def wipe_disk(self, directory: str) -> None:
        """Put an empty disk in the place of a directory; the node does not run."""
        self.disk.broken.pop(directory, None)
        self.disk.remove_tree(directory)
        self.disk.make_directory(directory)
        self.disk.sync_all("/data")

    def mend_disks(self) -> None:
        """Let all directories work again, for the next process: the present one has given them up."""
        self.disk.broken.clear()
        self.disk.once.clear()

    def _ended(self) -> None:
        self.running = False
        self.end_process()
        self._unfinished.clear()

    # -- turns

    def settle(self) -> None:
        if self.running:
            self.broker.settle()
            if observers := self.server.turns.observers:
                for look in tuple(observers):
                    look()
            self._arm()
            if self.broker.node.replicas.hosted() and not self.broker.node.logs.topics_are_known:
                self.violations.append(f"{self.name} has opened partitions before it knows their topics")

    def _arm(self) -> None:
        due = self.broker.next_deadline()
        if due is None or (self._timer is not None and self._timer.step is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.held and due > self.clock.now:
            return
        self._timer = self.later(due - self.clock.now, self.broker.on_deadline)
        self._timer_due = due

    def arm_anew(self) -> None:
        """Set the timer for the next deadline, after the clock was stopped, moved or released."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.running:
            self._arm()

    # -- jobs

    @property
    def is_idle(self) -> bool:
        """Return whether every job was applied."""
        return not self._unfinished

    def submit(self, job: Job) -> None:
        """Run a job beside the turns and apply it in one."""
        self._unfinished[job] = []
        life = self.life

        def run() -> None:
            if self.life == life and job in self._unfinished:
                self._unfinished[job].append(_outcome(job))
                self.later(self.random.randrange(self.disk_ms), lambda: self._apply(job))

        self.timeline.after(self.random.randrange(self.disk_ms), run)

    def _apply(self, job: Job) -> None:
        if job in self._unfinished:
            _conclude(job, self._unfinished.pop(job)[0])

    def replace(self, broker: Broker) -> None:
        """Put another broker in the place of the present one: new connections are the new broker's."""
        self.broker = broker
        self.server = SimServer(self, broker)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.network.process_ended(self)
        self.on_made(self)
        self.open(listeners_of(broker.config))

    # -- connections

    def next_connection(self, listener: Listener) -> ConnectionContext:
        self._connections += 1
        return ConnectionContext(self._connections, listener.name, (self.name, listener.port), ("10.0.0.1", 50000))


@lru_cache(_CONFIGS)
def _config_of(settings: tuple[tuple[str, str], ...]) -> BrokerConfig:
    """Return the configuration of settings, which are the same for every seed."""
    return BrokerConfig(dict(settings))


def _outcome(job: Job) -> OSError | None:
    try:
        job.run()
    except OSError as error:
        return error
    return None


def _conclude(job: Job, error: OSError | None) -> None:
    if error is None:
        job.apply()
    else:
        job.failed(error)


def _nothing(node: SimNode) -> None: ...


__all__ = ["DATA", "SimNode", "Step"]
