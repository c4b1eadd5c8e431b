"""`pykafka-broker replay`: a recording or a capture played again, the answers that differ, and what a check finds.

Rule: without a target the recording is played against a broker of its own, a recording of a cluster against a cluster,
which may be another release (`--emulate`). The exit code is 0 where all answers are as recorded and nothing is found, 3
where an answer differs, 4 where `--check` finds something, 1 where the recording can't be played.

`--page` shows the broker's own page with a line of time, which says what moment the broker is at. A move forward plays
on, a move back empties the broker and plays from the beginning. Moves come one after the other. Everything else that
the browser asks goes to the broker as it is.

`--masked` writes a recording that may be given away: without addresses, ids, passwords, and the content of records.
What was equal stays equal, so a masked recording is played as it was. Keys, values and values of headers become other
text of the same length; names of topics, groups and clients stay. Logins and what carries passwords are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import Namespace
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import h11

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.cli.addresses import TOKEN_VARIABLE
from pykafka_broker.cli.check import add_questions, questions
from pykafka_broker.cli.commands import CommandParser
from pykafka_broker.control.door import ENTRY, MAX_BODY_BYTES, page_files, page_response
from pykafka_broker.control.history.findings import clock
from pykafka_broker.control.http import HttpAddress, HttpListener, Request, Response, why_not_of_this_machine
from pykafka_broker.control.other_nodes import hand_on
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.traffic.exchange import Exchange, Mark
from pykafka_broker.control.traffic.readable import line, seen
from pykafka_broker.control.traffic.recorder import WITH_SECRETS
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Message, leaves
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import CODEC_MASK, HEADER_SIZE, BatchHeader, batch_of, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster, RemoteBroker
from pykafka_broker.testing.compared_answers import CHOSEN, NODE, differing
from pykafka_broker.testing.history import Checks
from pykafka_broker.testing.playing import read_recordings
from pykafka_broker.testing.recorded_coordinators import QUESTIONS, moved_coordinator
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import COORDINATOR, PROCESS, Recorded, Recording, lines_of
from pykafka_broker.testing.replay import RecordingPlayer
from pykafka_broker.testing.replay_targets import ClusterTarget, ControlledTarget, PlainTarget, Target

DIFFERS = 3
FOUND = 4


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `replay`. Returns the exit code."""
    own = parser()
    options = own.parse_args(arguments[1:])
    asked = questions(own, options) if options.check or options.input or options.output else None
    if options.to and (options.emulate or options.brokers is not None):
        own.error("--emulate and --brokers are for a broker or cluster of its own: leave out --to")
    if options.page and (options.to or asked is not None):
        own.error("--page plays on a broker of its own, and checks nothing")
    if asked is not None and options.to and not options.url:
        own.error("--check asks the target's control API: --url is missing")
    try:
        recording = read_recordings(options.recording)
        if options.masked is not None:
            masked = Mask(os.urandom(32)).recording(recording)
            Path(options.masked).write_text("\n".join([*lines_of(masked), ""]), encoding="utf-8")
            return 0
        if options.compare is not None:
            return _compared(recording, read_recordings([options.compare]), options.all)
        if options.list:
            print("\n".join(lines(recording)))
            return 0
        if options.to is None:
            return _on_its_own(recording, options, asked)
        if recording.nodes and options.url:
            raise ValueError("--url is the control API of one broker: leave it out for the recording of a cluster")
        host, _, port = options.to.rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"--to {options.to}: it must be HOST:PORT")
        host, remote = host.strip("[]"), None
        if options.url:
            remote = RemoteBroker(options.url, os.environ.get(TOKEN_VARIABLE))
            if asked is not None:
                remote.history.start()
        target: Target = PlainTarget(host, int(port))
        if remote is not None:
            target = ControlledTarget(remote.control, host, int(port))
        player = _played(recording, target, options, options.url or options.to)
        return _told(player, options.all, target, recording, remote, asked)
    except (OSError, ValueError, ControlError, BrokerError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        print(f"pykafka-broker replay: {where}{getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1


def parser() -> CommandParser:
    command = CommandParser(
        prog="pykafka-broker replay",
        description="Play a recording again, and print the first answer that differs.",
    )
    recording = "a file of `save_recording` or of a failing test; a pcap or pcapng file; of a cluster one of each node"
    command.add_argument("recording", nargs="+", help=recording)
    command.option("--emulate RELEASE", "play it against this release; by default against the newest")
    to = "play it against this broker, or this Kafka; of a cluster, any broker of another one"
    command.option("--to HOST:PORT", to)
    brokers = "play it on so many brokers; by default on those of the recording"
    command.add_argument("--brokers", type=int, metavar="N", help=brokers)
    command.add_argument("--url", help="address of that broker's control API, for faults and the clock; Kafka has none")
    time = "let as much time pass there as in the recording: the broker's clock is moved, others are waited for"
    command.option("--recorded-time", time)
    command.option("--list", "play nothing: print the requests with their numbers, and what else happened")
    command.add_argument("--until", type=int, metavar="NUMBER", help="the last request to play")
    command.option("--keep", "let the broker run at the end, with all connections, until Enter is pressed")
    page = "show a line of time in the broker's page, which can be moved: the broker is as it was at each request"
    command.option("--page", page)
    command.option("--all", "print all answers that differ, and not only the first")
    compare = "play nothing: print what the clients in that recording, of a new version, write and commit otherwise"
    command.option("--compare FILE", compare)
    masked = "play nothing: write the recording there without addresses, ids, passwords and the content of records"
    command.option("--masked FILE", masked)
    command.option("--check", "check afterwards what was lost, doubled or out of order, as `check` does")
    add_questions(command)
    return command


def _compared(recording: Recording, other: Recording, of_all: bool) -> int:
    """Print what clients did otherwise in another recording; return the exit code."""
    found = list(differing(recording, other))
    print("\n".join(found if of_all else found[:1]) or "the clients wrote and committed the same")
    return DIFFERS if found else 0


def _on_its_own(recording: Recording, options: Namespace, asked: dict[str, Any] | None) -> int:
    """Play a recording on a broker of its own, or on a cluster; return the exit code."""
    history = asked is not None
    if not recording.nodes and options.brokers is None:
        with KafkaBroker(emulate=options.emulate, history=history) as broker:
            if options.page:
                return _shown(
                    recording,
                    options,
                    broker,
                    lambda: ControlledTarget(broker.control, broker.host, broker.port, process=broker),
                )
            target: Target = ControlledTarget(broker.control, broker.host, broker.port, process=broker)
            player = _played(recording, target, options, str(broker.control_url))
            return _told(player, options.all, target, recording, broker, asked)
    count = len(recording.brokers) or 1 if options.brokers is None else options.brokers
    controllers = 0 if recording.nodes and not recording.controller and not recording.unknown else 1
    with KafkaCluster(count, controllers=controllers, emulate=options.emulate, history=history) as cluster:
        if options.page:
            return _shown(recording, options, cluster, lambda: ClusterTarget(cluster))
        target = ClusterTarget(cluster)
        player = _played(recording, target, options, str(cluster.broker(1).control_url))
        return _told(player, options.all, target, recording, cluster, asked)


def _shown(
    recording: Recording, options: Namespace, played_on: KafkaBroker | KafkaCluster, target: Callable[[], Target]
) -> int:
    """Show the page until Enter is pressed; return the exit code."""

    async def show() -> None:
        async with ReplayPage(recording, played_on, target) as page:
            await page.move(page.requests if options.until is None else options.until)
            print(f"{page.requests} requests: {page.url} has the line of time; Enter ends it", flush=True)
            await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(show())
    return 0


def _played(recording: Recording, target: Target, options: Namespace, shown_at: str) -> RecordingPlayer:
    """Play a recording. shown_at: where to look at the broker at the end, until Enter is pressed."""
    player = RecordingPlayer(recording, target, options.recorded_time)

    async def hold() -> None:
        print(f"{player.played} requests played: {shown_at} shows the broker; Enter ends it", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(player.run(options.until, hold if options.keep else None))
    return player


def _told(
    player: RecordingPlayer,
    of_all: bool,
    target: Target,
    recording: Recording,
    checked: Checks | None,
    asked: dict[str, Any] | None,
) -> int:
    """Print what came of it; return the exit code."""
    for difference in player.differences if of_all else player.differences[:1]:
        print(difference)
    early = f"{player.early} answers of brokers that had not heard of a change yet are not compared" * bool(
        player.early
    )
    for told in filter(None, (recording.unknown, _left_out(player, target), early)):
        print(told)
    differing = len(player.differences)
    print(
        f"{player.played} requests played, {differing} answered otherwise"
        if differing
        else f"{player.played} requests played, all answered as recorded"
    )
    found = [] if checked is None or asked is None else checked.check(**asked, raises=False)
    for each in found:
        print("\n".join(each.lines))
    return DIFFERS if differing else FOUND if found else 0


def _left_out(player: RecordingPlayer, target: Target) -> str:
    """Return what a target without a control API was not given; empty where nothing is missing."""
    if not isinstance(target, PlainTarget):
        return ""
    calls = [name if times == 1 else f"{name} ({times} times)" for name, times in sorted(target.left_out.items())]
    parts = [f"not done there, as it has no control API: {', '.join(calls)}"] if calls else []
    if player.disturbed == 1:
        parts.append("1 answer that met a fault is not compared")
    elif player.disturbed:
        parts.append(f"{player.disturbed} answers that met a fault are not compared")
    if target.ended is not None and player.number == target.ended[0]:
        of = f"request {player.number} of {player.requests}"
        parts.append(f"played up to {of}: then {target.ended[1]}, which can't be done there")
    return "; ".join(parts)


# -- the page of a recording


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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        return self._told(int(number))

    def _told(self, number: int) -> dict[str, Any]:
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


# -- events as people read them


_OTHER = " " * 7  # in the place of a request's number


def lines(recording: Recording) -> Iterator[str]:
    """Yield what happened, with the time since the beginning and the number of each request."""
    number = 0
    for each in recording.events:
        number += bool(each.request)
        yield f"{number:6} {line_of(each, number)}" if each.request else _OTHER + line_of(each)


def line_of(event: Recorded, number: int = 0) -> str:
    """Return a line about an event. number: of a request."""
    node = f" (node {event.node})" if event.node else ""
    if event.request:
        return f"{line(seen(_exchange(event, number), False))}{node}"
    if event.call is None:
        return f"{clock(event.at // 1000)} connection:{event.connection} is closed{node}"
    method, target, body = event.call
    what = f"control API: {method} {target} {body}"
    if method == PROCESS:
        what = f"broker {target.strip('/')}"
    elif method == COORDINATOR:
        one, other = moved_coordinator(event)
        what = f"broker {other} becomes the coordinator of {QUESTIONS[one.kind].replace('_', ' ')} {one.key}"
    return f"{clock(event.at // 1000)} {what}".rstrip() + node


def bodies_of(event: Recorded, number: int) -> tuple[Any, Any]:
    """Return the request and the response of an exchange as values for JSON."""
    found = seen(_exchange(event, number), True, True)
    return found["request"], found["response"]


def _exchange(event: Recorded, number: int) -> Exchange:
    context = ConnectionContext(event.connection, "", ("", 0), ("connection", event.connection))
    answer = None if event.response is None else (len(event.response).to_bytes(4, "big"), event.response)
    took_ns = 0 if answer is None else (event.answered - event.at) * 1000
    mark = Mark(len(event.request), event.fault)
    return Exchange((event.at // 1000, context, event.request, answer, took_ns), number, mark)


# -- masks


_HOSTS = ("host", "client_host")
_PRINCIPALS = ("principal", "principal_name", "owner_principal_name", "token_requester_principal_name", "user")
_LEFT_OUT = WITH_SECRETS | {
    *(ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),  # values may be passwords
    ApiKey.PUSH_TELEMETRY,
}
_LONGEST_DIGEST = 64  # bytes


class Mask:
    """The masked form of a recording. secret: bytes that nobody knows, so that no value can be guessed and compared."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._of: dict[tuple[str, Any], Any] = {}
        self._counts: dict[str, int] = {}

    def recording(self, recording: Recording) -> Recording:
        """Return a recording masked."""
        events = [each for event in recording.events if (each := self._event(event)) is not None]
        return recording._replace(state=list(map(self._line, recording.state)), events=events)

    def _event(self, event: Recorded) -> Recorded | None:
        if event.call is not None:
            method, target, body = event.call
            return event._replace(call=(method, target, self._body(body)))
        if event.is_close:
            return event
        message = RecordedMessages(event)
        if message.api_key in _LEFT_OUT or message.request is None:
            return None
        for each in (message.request, message.response):
            if each is not None:
                self._mask(each)
        return message.rewritten() if event.response is None or message.response is not None else None

    def _mask(self, message: Message) -> None:
        for struct, name, value in leaves(message):
            if name in CHOSEN and CHOSEN[name] != NODE:
                many = isinstance(value, list)
                found = [self._id(CHOSEN[name], each) for each in (value if many else [value])]
                setattr(struct, name, found if many else found[0])
            elif name in _HOSTS and value:
                setattr(struct, name, self._id("host", value))
            elif name in _PRINCIPALS and isinstance(value, str) and value:
                setattr(struct, name, f"User:{self._id('user', value)}" if ":" in value else self._id("user", value))
            elif name == "records" and value is not None:
                struct.records = self._records(bytes(value))

    def _id(self, kind: str, value: Any) -> Any:
        """Return the same other id for the same one."""
        if value in ("", 0, -1, None, ZERO_UUID):
            return value
        if (kind, value) not in self._of:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            made: Any = number
            if isinstance(value, bytes):
                made = b"masked  " + number.to_bytes(8, "big")
            elif isinstance(value, str):
                made = f"{kind.replace(' ', '-')}-{number}"
            self._of[kind, value] = made
        return self._of[kind, value]

    # -- records

    def _records(self, data: bytes) -> bytes:
        masked: list[bytes] = []
        with suppress(CorruptBatch):  # what was fetched ends anywhere
            for header, batch in iter_batches(data):
                masked.append(self._batch(header, batch))
        return b"".join(masked)

    def _batch(self, header: BatchHeader, batch: memoryview) -> bytes:
        producer_id = self._id("producer id", header.producer_id)
        if header.is_control:
            return bytes(batch_of(replace(header, producer_id=producer_id), batch[HEADER_SIZE:]))
        records = [
            BatchRecord(
                each.offset,
                each.timestamp,
                self._content(each.key),
                self._content(each.value),
                [(name, self._content(value)) for name, value in each.headers],
            )
            for each in iter_records(batch, header)
        ]
        builder = BatchBuilder(base_offset=header.base_offset)
        builder.extend(records)
        base = records[0].timestamp if records else header.base_timestamp
        attributes = header.attributes & ~CODEC_MASK
        told = replace(header, producer_id=producer_id, attributes=attributes, base_timestamp=base)
        return bytes(batch_of(told, bytes(builder.build())[HEADER_SIZE:]))

    def _content(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        digest = blake2b(value, digest_size=_LONGEST_DIGEST, key=self._secret).hexdigest().encode()
        return (digest * (len(value) // len(digest) + 1))[: len(value)]

    # -- lines and calls

    def _line(self, line: str) -> str:
        found = json.loads(line)
        return json.dumps(self._given(found)) if found.get("type") == "record" else line

    def _body(self, body: str) -> str:
        with suppress(ValueError):
            found = json.loads(body)
            if isinstance(found, dict) and isinstance(found.get("records"), list):
                return json.dumps(found | {"records": list(map(self._given, found["records"]))})
        return body

    def _given(self, record: dict[str, Any]) -> dict[str, Any]:
        masked = dict(record)
        for name in ("key", "value"):
            _replace(masked, name, self._content)
        if record.get("headers"):
            masked["headers"] = [dict(each) for each in record["headers"]]
            for each in masked["headers"]:
                _replace(each, "value", self._content)
        return masked


def _replace(given: dict[str, Any], name: str, change: Callable[[bytes | None], bytes | None]) -> None:
    """Change a text, JSON or bytes in base64."""
    in_base64 = f"{name}_base64"
    if given.get(in_base64) is not None:
        given[in_base64] = b64encode(change(b64decode(given[in_base64])) or b"").decode()
    elif (value := given.get(name)) is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        given[name] = (change(text.encode()) or b"").decode()
