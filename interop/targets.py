"""The brokers that the suite runs against. Rule: a test asks for a broker and gets an address; `--target` chooses."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pytest

from interop.raw import address_of
from interop.real_kafka import RealKafka, free_port


class Target(Protocol):
    """The members of `pykafka_broker.testing.KafkaBroker` that the suite uses."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def data_dir(self) -> Path: ...

    @property
    def log_path(self) -> Path: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def restart(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Running:
    """A broker that somebody else started: it has an address and nothing more."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @property
    def data_dir(self) -> Path:
        pytest.skip("needs the files of the broker")

    log_path = data_dir

    def stop(self) -> None:
        pytest.skip("needs a broker of its own")

    kill = restart = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


BROKERS = 3


class ClusterTarget:
    """Three brokers of ours. What is done to the broker of a test is done to all of them, one after the other.

    The log is that of the first broker, which is also the one that a `RawClient` connects to.
    """

    def __init__(self, config: Mapping[str, str] | None) -> None:
        from pykafka_broker.testing import KafkaCluster

        ranks = {"default.replication.factor": str(BROKERS), **dict(config or {})}
        self._cluster = KafkaCluster(BROKERS, config=ranks)

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def data_dir(self) -> Path:
        raise NotImplementedError("each broker has its own: such a test is marked `one_broker`")

    @property
    def log_path(self) -> Path:
        return self._cluster.brokers[0].log_path

    def stop(self) -> None:
        for broker in self._cluster.brokers:
            broker.stop()

    def kill(self) -> None:
        for broker in self._cluster.brokers:
            broker.kill()

    def restart(self) -> None:
        for broker in self._cluster.brokers:
            broker.restart()

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)


def start(name: str, config: Mapping[str, str] | None = None) -> Target:
    """Return a broker that is not yet started: use it as a context manager."""
    if name == "kafka":
        return RealKafka(config)
    if name == "pykafka":
        from pykafka_broker.testing import KafkaBroker

        return KafkaBroker(config=dict(config or {}), port=free_port(), quick_groups=False)  # found free by a restart
    if name == "cluster":
        return ClusterTarget(config)
    if config:
        pytest.skip("needs a broker with settings of its own")
    return Running(name)


def host_and_port(target: Target) -> tuple[str, int]:
    return address_of(target.bootstrap_servers)
