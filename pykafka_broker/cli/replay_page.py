"""The page of a recording: the broker's own page with a line of time, which says what moment the broker is at.

Rule: a move forward plays on, a move back empties the broker and plays from the beginning. Moves come one after the
other. Everything else that the browser asks goes to the broker as it is. Apart from `replay`, since a play without a
page must not import an HTTP server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

import h11

from pykafka_broker.cli.recorded_events import bodies_of, line_of
from pykafka_broker.control.door import ENTRY, MAX_BODY_BYTES, page_files, page_response
from pykafka_broker.control.http import HttpAddress, HttpListener, Request, Response, why_not_of_this_machine
from pykafka_broker.control.other_nodes import hand_on
from pykafka_broker.control.problems import Problem
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster
from pykafka_broker.testing.recording import Recorded, Recording
from pykafka_broker.testing.replay import RecordingPlayer
from pykafka_broker.testing.replay_targets import Target

TIMELINE = "/page/timeline"
_SCRIPT = b'<script type="module" src="/page/timeline.js"></script>\n</head>'
_MOST_BESIDE = 20  # other events that are told before a request


class ReplayPage:
    """A page that plays a recording on a broker or cluster.

    requests: how many the recording has. url: where the page is.

    Args:
        target: makes the target, which is empty.
    """

    def __init__(
        self, recording: Recording, played_on: KafkaBroker | KafkaCluster, target: Callable[[], Target]
    ) -> None:
        self._recording = recording
        self._played_on = played_on
        self._target = target
        self._numbered = [at for at, each in enumerate(recording.events) if each.request]
        self.requests = len(self._numbered)
        broker = played_on.broker(1) if isinstance(played_on, KafkaCluster) else played_on
        control = urlsplit(str(broker.control_url))
        self._control = control.hostname or "127.0.0.1", control.port or 0
        self._player: RecordingPlayer | None = None
        self._moving = asyncio.Lock()
        self._listener = HttpListener(self._serve, self._judge)

    @property
    def url(self) -> str:
        return self._listener.url

    async def __aenter__(self) -> Self:
        await self._listener.open(HttpAddress("127.0.0.1", 0, None), "the page")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.close()
        if self._player is not None:
            await self._player.end()

    async def move(self, number: int) -> None:
        """Bring the broker to the moment after the request of a number; 0 is the beginning.

        Raises:
            BadRecording: the state before the recording can't be made.
            OSError: the broker does not answer.
        """
        async with self._moving:
            if self._player is not None and self._player.number > number:
                player, self._player = self._player, None
                await player.end()
                await asyncio.to_thread(self._played_on.reset)
            if self._player is None:
                player = RecordingPlayer(self._recording, self._target())
                await player.begin()
                self._player = player
            await self._player.play(number)

    # -- what the browser asks

    def _judge(self, request: Request) -> Response | int:
        why = why_not_of_this_machine(request.headers)
        return MAX_BODY_BYTES if why is None else _problem(Problem(403, why))

    async def _serve(self, request: Request) -> Response:
        path = urlsplit(request.target).path
        try:
            if path == TIMELINE or path.startswith(f"{TIMELINE}/"):
                return _json(await self._moment(request, path.removeprefix(TIMELINE).strip("/")))
            if path == "/" and (page := page_response(request._replace(headers={}), path)) is not None:
                content = page_files()[ENTRY].content.replace(b"</head>", _SCRIPT)
                headers = tuple(each for each in page.headers if each[0] != "etag")
                return page._replace(body=content, headers=headers)
            return page_response(request, path) or await hand_on(self._control, request)
        except Problem as problem:
            return _problem(problem)
        except (ValueError, OSError, TimeoutError, ControlError, BrokerError, h11.RemoteProtocolError) as error:
            return _problem(Problem(502, str(error) or "the broker does not answer"))

    async def _moment(self, request: Request, number: str) -> dict[str, Any]:
        """Return where the broker is, or a moment; a POST moves there."""
        if not number:
            return {"requests": self.requests, "at": 0 if self._player is None else self._player.number}
        if not number.isdecimal() or int(number) > self.requests:
            raise Problem(404, f"the recording has no request {number}; it has {self.requests}")
        if request.method == "POST":
            await self.move(int(number))
        return self._described(int(number))

    def _described(self, number: int) -> dict[str, Any]:
        """Return a request with its answer, and what else happened before it."""
        events = self._recording.events
        before = self._numbered[number - 2] + 1 if number > 1 else 0
        at = self._numbered[number - 1] if number else 0
        beside = [line_of(each) for each in events[before:at] if not each.request][-_MOST_BESIDE:]
        if not number:
            return {"number": 0, "line": "before the first request", "beside": [], "request": None, "response": None}
        event: Recorded = events[at]
        asked, answered = bodies_of(event, number)
        found = {"number": number, "line": line_of(event, number), "beside": beside}
        return found | {"request": asked, "response": answered, "differs": self._differs(number)}

    def _differs(self, number: int) -> str | None:
        differences = [] if self._player is None else self._player.differences
        return next((str(each) for each in differences if each.number == number), None)


def _json(value: Any) -> Response:
    return Response(200, "application/json", json.dumps(value).encode(), (("cache-control", "no-store"),))


def _problem(problem: Problem) -> Response:
    return Response(int(problem.status), "application/problem+json", json.dumps(problem.body()).encode())
