"""A broker for tests with an event loop.

Rule: process, settings and log are those of a `KafkaBroker`. Starting and ending the process happens in a thread, but
for the start of a broker on the test's own loop; all other operations run on the loop. A cancelled start leaves no
process behind.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

from pykafka_broker.testing.aio.controlled import AsyncControlled
from pykafka_broker.testing.async_client import AsyncControlClient, entered, forked, in_thread, threaded
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.data import made_as
from pykafka_broker.testing.process import KafkaBroker
from pykafka_broker.testing.remote import RemoteBroker

__tracebackhide__ = told_to_the_test


class AsyncKafkaBroker(AsyncControlled):
    """`KafkaBroker` for tests with an event loop: `async with AsyncKafkaBroker({"num.partitions": 3}) as broker`, with
    the same arguments and the same methods, which are awaited: `await broker.produce("orders", ["1"])`, `await
    broker.clock.advance(minutes=10)`. Properties that ask the broker are awaited too: `await fault.hits`. A method that
    adds a fault or makes a fork can be entered: `async with broker.faults.add(api="Fetch", delay_ms=100) as fault`. A
    wait that is cancelled ends at once, in the broker too. `AsyncKafkaBroker.of(kafka_broker)` is the asynchronous form
    of an existing `KafkaBroker`. asyncio is required.
    """

    @made_as(KafkaBroker.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._broker = KafkaBroker(*args, **kwargs)

    @classmethod
    def of(cls, broker: KafkaBroker) -> Self:
        """Return the asynchronous form of a broker; both are the same process."""
        form = cls.__new__(cls)
        form._broker = broker
        return form

    def __repr__(self) -> str:
        return repr(self._broker)

    @property
    def control(self) -> AsyncControlClient:
        process = self._broker.control
        return AsyncControlClient(process.url, of=process)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        return self._broker.bootstrap_servers

    @property
    def schema_registry_url(self) -> str:
        """Return the address of the schema registry, for a serializer's `schema.registry.url`."""
        return self._broker.schema_registry_url

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Return the settings of a client of the broker, as `KafkaBroker.client_config`."""
        return self._broker.client_config(client, user, mechanism)

    @property
    def host(self) -> str:
        return self._broker.host

    @property
    def port(self) -> int:
        return self._broker.port

    @property
    def config(self) -> dict[str, str]:
        return self._broker.config

    @property
    def data_dir(self) -> Path:
        return self._broker.data_dir

    @property
    def history_path(self) -> Path | None:
        return self._broker.history_path

    @property
    def pid(self) -> int:
        """The id of the process, or of the last process after its end."""
        return self._broker.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._broker.running

    @property
    def log(self) -> str:
        """The end of the broker's log, restarts included."""
        return self._broker.log

    @property
    def log_size(self) -> int:
        """Bytes logged so far, for `log_since`."""
        return self._broker.log_size

    def log_since(self, size: int) -> str:
        """Return the log after the first `size` bytes, at most the last 16 kB."""
        return self._broker.log_since(size)

    # -- recordings, which outlive the process

    start_recording = threaded(KafkaBroker.start_recording, "_broker")
    save_recording = threaded(KafkaBroker.save_recording, "_broker")

    # -- life

    async def start(self) -> Self:
        """Start the process and wait until clients may connect."""
        __tracebackhide__ = True
        broker = self._broker
        self._choose_loop()
        if broker._starts_on_loop:
            await broker._start_on_loop()
        else:
            await in_thread(broker.start, stop=broker.give_up, undo=broker.kill)
        return self

    stop = threaded(KafkaBroker.stop, "_broker")
    kill = threaded(KafkaBroker.kill, "_broker")
    close = threaded(KafkaBroker.close, "_broker")

    async def restart(self) -> None:
        """Stop and start the broker on the same port and data."""
        __tracebackhide__ = True
        self._choose_loop()
        await in_thread(self._broker.restart, stop=self._broker.give_up, undo=self._broker.kill)

    def _choose_loop(self) -> None:
        """Have a broker within the process run on this loop; one that began in a thread, which blocking clients may use
        and which outlives this loop, stays in threads.
        """
        broker = self._broker
        if broker._process is None or broker.loop is not None:
            broker.loop = _loop_of_broker()

    @entered
    async def fork(self) -> AsyncKafkaBroker:
        """Start another broker with the present state, on a new port and with new data directories; `close` ends the
        fork.
        """
        return AsyncKafkaBroker.of(await forked(self._broker.fork))

    async def __aenter__(self) -> Self:
        __tracebackhide__ = True
        return self if self.running else await self.start()

    async def __aexit__(self, *failure: Any) -> None:
        await in_thread(lambda: self._broker.__exit__(*failure))


def _loop_of_broker() -> asyncio.AbstractEventLoop | None:
    """Return the loop that a broker within the process runs on; None where the loop can't watch its sockets."""
    loop = asyncio.get_running_loop()
    proactor = getattr(asyncio, "ProactorEventLoop", None)
    return None if proactor is not None and isinstance(loop, proactor) else loop


class AsyncRemoteBroker(AsyncControlled):
    """`RemoteBroker` for tests with an event loop.

    The addresses of the broker are asked for once, when the first one is needed, in a short call that blocks the loop.
    """

    def __init__(self, control_url: str, token: str | None = None) -> None:
        self._control = AsyncControlClient(control_url, token)
        self._broker = RemoteBroker(control_url, token)
        self._addresses: dict[str, str] = {}

    @property
    def control(self) -> AsyncControlClient:
        return self._control

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        return self._address("bootstrap_servers")

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, for a serializer's `schema.registry.url`. Raises BrokerError."""
        return self._address("schema_registry_url")

    def _address(self, name: str) -> str:
        if name not in self._addresses:
            with self._broker:
                self._addresses[name] = getattr(self._broker, name)
        return self._addresses[name]

    async def close(self) -> None:
        """Close the connections to the broker, which goes on running."""
        self._broker.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
