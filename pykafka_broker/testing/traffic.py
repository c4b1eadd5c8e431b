"""Methods for the requests of clients, and for faults.

Rule: a method is one operation of the control API and adds nothing to it. A wait without success raises `WaitTimeout`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pykafka_broker.testing.answers import Advice, ChaosState, Connection, FaultState, RecordingState, SeenRequest
from pykafka_broker.testing.arguments import check_count, epoch_ms
from pykafka_broker.testing.control_client import ControlClient, ControlError, told_to_the_test
from pykafka_broker.testing.data import BrokerPart, Handle, made_as, wait

__tracebackhide__ = told_to_the_test


class Fault(BrokerPart):
    """A fault on a broker."""

    def __init__(self, control: ControlClient, id: int) -> None:
        super().__init__(control)
        self.id = id

    def __repr__(self) -> str:
        return f"<Fault {self.id}>"

    @property
    def control(self) -> ControlClient:
        """The control API of the broker's process. Raises ControlError for a fault of an earlier process."""
        if self._control.is_of_the_past:  # another fault may have the number there
            raise ControlError(404, f"fault {self.id} has ended with the process of its broker")
        return self._control

    def describe(self) -> FaultState:
        """Return the fault's arguments and hits."""
        return self._answer(FaultState, "GET", f"/faults/{self.id}")

    @property
    def hits(self) -> int:
        """The number of affected requests; also after the end of the fault."""
        return int(self.describe()["hits"])

    def wait(self, n: int = 1, timeout: float = 10) -> int:
        """Wait until the fault has affected enough requests; returns the hits.

        Args:
            n: the least number of hits, at least 1.
            timeout: in seconds.

        Raises:
            WaitTimeout: there were fewer hits in time.
        """
        check_count("n", n)
        return wait(self.control, FaultState, "waits/fault", timeout, {"fault": self.id, "n": n})["hits"]

    def remove(self) -> int:
        """End the fault and return the hits; held requests are carried out now. A second call does nothing."""
        return int(self.control.call("DELETE", f"/faults/{self.id}")["hits"])

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, ControlError):  # a fault ends with the process of its broker
            self.remove()


class Faults(BrokerPart):
    """The faults of a broker: `broker.faults`."""

    def add(
        self,
        *,
        api: str | Sequence[str] | None = None,
        version: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
        connection: int | None = None,
        listener: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        every: int = 1,
        times: int | None = None,
        probability: float = 1.0,
        seed: int | None = None,
        nth: int | None = None,
        error: str | int | None = None,
        applied: bool = False,
        delay_ms: int = 0,
        delay_clock: str = "broker",
        drop: str | None = None,
        cut: bool = False,
        corrupt: bool = False,
        hang: bool = False,
        throttle_ms: int = 0,
        connect: str | None = None,
        event: str | None = None,
    ) -> Fault:
        """Disturb matching requests; `docs/faults.md` has each argument. In a `with` block the fault ends with the
        block.
        """
        body = {name: value for name, value in locals().items() if name != "self"}
        if api is not None and not isinstance(api, str):
            body["api"] = list(api)
        return self._add(body)

    def _add(self, body: Mapping[str, Any]) -> Fault:
        return Fault(self.control, int(self.control.call("POST", "/faults", body)["id"]))

    def all(self) -> list[FaultState]:
        """Return all faults in the order of addition."""
        return self._answer(list[FaultState], "GET", "/faults")

    def clear(self) -> None:
        """End all faults, chaos included."""
        self.control.call("DELETE", "/faults")

    def chaos(
        self,
        seed: int,
        rate: float = 0.05,
        *,
        events: bool = False,
        api: str | Sequence[str] | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> ChaosState:
        """Disturb a share of all requests at random.

        Args:
            seed: the same seed gives the same faults.
            rate: the share of all requests, 0 to 1; 0 ends the chaos.
            events: leaders and coordinators move and sessions end, too. A cluster refuses: `move_leader` moves its
                leaders.
            api, client_id, topic, group: only requests that match all of them, as of `add`; only that topic fails.
        """
        body: dict[str, Any] = {"seed": seed, "rate": float(rate), "events": events}
        body |= {"client_id": client_id, "topic": topic, "group": group}
        body["api"] = api if api is None or isinstance(api, str) else list(api)
        return self._set_chaos(body)

    def _set_chaos(self, body: Mapping[str, Any]) -> ChaosState:
        return self._answer(ChaosState, "POST", "/chaos", body)

    def chaos_state(self) -> ChaosState:
        """Return the present or the last chaos, with the faults that it has drawn, each as arguments of `add`.

        Raises:
            ControlError: there was no chaos since the last reset.
        """
        return self._answer(ChaosState, "GET", "/chaos")


class Traffic(Handle):
    """A broker's requests, connections and faults."""

    @property
    def faults(self) -> Faults:
        """The faults of the broker."""
        return Faults(self.control)

    @made_as(Faults.chaos)
    def chaos(self, *args: Any, **kwargs: Any) -> ChaosState:
        """Disturb a share of all requests at random; the arguments are those of `faults.chaos`."""
        return self.faults.chaos(*args, **kwargs)

    def start_recording(self) -> RecordingState:
        """Record all requests and answers from now on, whole, after the topics, records and offsets that are there."""
        return self._answer(RecordingState, "POST", "/recording")

    def save_recording(self, path: str | os.PathLike[str]) -> RecordingState:
        """Write the recording into a file for `pykafka-broker replay`, and stop recording.

        Raises:
            ControlError: nothing is recorded.
        """
        text = self.control.call("GET", "/recording")
        Path(path).write_text(text, encoding="utf-8")
        return self._answer(RecordingState, "DELETE", "/recording")

    def connections(self, client_id: str | None = None) -> list[Connection]:
        """Return the connections of clients: connection, client_id, principal, software, client, listener.

        A `*` in `client_id` stands for anything.
        """
        return self._answer(list[Connection], "GET", "/connections", query={"client_id": client_id})

    def metrics(self) -> str:
        """Return the metrics for Prometheus, as `/metrics` does."""
        return str(self.control.call("GET", "/metrics"))

    def requests(
        self,
        api: str | None = None,
        *,
        version: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
        connection: int | None = None,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        error: str | None = None,
        since: datetime.datetime | float | None = None,
        after: int | None = None,
        before: int | None = None,
        waiting: bool = True,
        bodies: bool = False,
        records: bool = False,
        limit: int = 1000,
    ) -> list[SeenRequest]:
        """Return the last requests of clients with their answers; of a cluster, each with `node_id`.

        Args:
            records: show the records in the bodies too, as far as the log has kept them.
            since: a datetime with a time zone, seconds since 1970 as `time.time()` has them, or milliseconds as an int.
            after, before: a request's `number`, which counts the requests of one broker.
        """
        query = {name: value for name, value in locals().items() if name != "self"}
        if since is not None:
            query["since"] = epoch_ms("since", since)
        return self._requests(query)

    def _requests(self, query: Mapping[str, Any]) -> list[SeenRequest]:
        return self._answer(list[SeenRequest], "GET", "/requests", query=query)

    def advice(self, client_id: str | None = None) -> list[Advice]:
        """Return what clients should change, from the requests in the log; of a cluster, each with `node_id`.

        Args:
            client_id: a `*` stands for anything.
        """
        return self._answer(list[Advice], "GET", "/advice", query={"client_id": client_id})

    def clear_requests(self) -> None:
        """Empty the request log."""
        self.control.call("DELETE", "/requests")

    def wait_for_request(
        self,
        api: str | None = None,
        *,
        version: int | None = None,
        client_id: str | None = None,
        principal: str | None = None,
        connection: int | None = None,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        error: str | None = None,
        since: datetime.datetime | float | None = None,
        after: int | None = None,
        waiting: bool = True,
        n: int = 1,
        bodies: bool = False,
        timeout: float = 10,
    ) -> list[SeenRequest]:
        """Wait until the log has enough matching requests, and return the requests; of a cluster, all logs together.

        Args:
            n: the least number of requests, at least 1.
            timeout: in seconds.

        The other arguments are those of `requests`.
        """
        query = {name: value for name, value in locals().items() if name not in ("self", "n", "timeout")}
        check_count("n", n)
        if since is not None:
            query["since"] = epoch_ms("since", since)
        return self._wait_for_request(query, n, timeout)

    def _wait_for_request(self, query: Mapping[str, Any], n: int, timeout: float) -> list[SeenRequest]:
        return wait(self.control, list[SeenRequest], "waits/request", timeout, {**query, "n": n})
