"""Requests with very many elements.

Rule: they are read in slices, and nothing is done before the whole is known to be readable. Then one that can be
divided is answered part by part, each part by the handler as if it were the request, and the answers are put together;
any other is answered whole, its longest list kept as bytes (`cut_list.py`) if the handler can do with that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from typing import Any, NamedTuple, Protocol

from pykafka_broker.broker.cut_list import read_with
from pykafka_broker.broker.divisions import READ_ANEW, Again, Division
from pykafka_broker.broker.letting_go import emptied, let_go
from pykafka_broker.broker.purgatory import Parked
from pykafka_broker.broker.reply import Reply
from pykafka_broker.broker.slices import Steps
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.cutting import Cutter, Part, merge, shape_of
from pykafka_broker.protocol.joining import Joined
from pykafka_broker.protocol.runtime import DecodeError, EncodeError, Message
from pykafka_broker.protocol.splitting import written

_NEVER_JOINED = frozenset((ApiKey.FETCH,))


class Whole(NamedTuple):
    """What a handler is told of a request when it answers a part of it: see `PartContext`."""

    repeated: Set[Hashable]
    traits: Set[Hashable]


class Answering(Protocol):
    """The router's part of it, for one request. None of these raises but `FrameError`."""

    request_type: type[Message]
    response_type: type[Message]
    version: int

    def read(self, body: bytes) -> Any:
        """The request with these bytes."""

    def answer(self, request: Any, of: Whole | None) -> Any:
        """As its handler gives it: a response, a `Reply` or a `Parked`. `of`: what the request is a part of."""

    def go_on(self, request: Any, reply: Reply, error: ApiError | None) -> Any:
        """What comes after the wait."""


def served(asking: Answering, frame: bytes, at: int, division: Division | None) -> Steps[Any]:
    """The answer to the request that begins there, after tagged fields of the header if `at` is negative."""
    name = asking.request_type.__name__
    try:
        return (yield from _Giant(asking, frame, at, division).served())
    except DecodeError as error:
        raise FrameError(f"{name} v{asking.version} does not decode: {error}") from None
    except EncodeError as error:
        raise FrameError(f"no answer to {name}: {error}") from None


class _Giant:
    def __init__(self, asking: Answering, frame: bytes, at: int, division: Division | None) -> None:
        self._asking = asking
        self._frame = frame
        self._at = at
        self._division = division
        self._shape = shape_of(asking.request_type.__name__, asking.version)

    def served(self) -> Steps[Any]:
        if self._at < 0:
            self._at = yield from self._skipped_tags(-self._at)
        request, is_whole = yield from self._read()
        if not is_whole:
            return (yield from self._in_parts(request))
        answer = yield from self._written((yield from self._settled(request, None)))
        if not isinstance(answer, Parked):  # which may need it
            through = [request]
            del request
            yield from let_go(through)
        return answer

    def _skipped_tags(self, at: int) -> Steps[int]:
        cutter = Cutter(self._frame, at, ((), {}))
        for _ in cutter.parts():
            yield None
        return cutter.end

    def _parts(self) -> Iterator[Part | None]:
        division = self._division
        if division is None:
            return Cutter(self._frame, self._at, self._shape).parts()
        return Cutter(self._frame, self._at, self._shape, division.items, len(division.asked)).parts()

    def _read(self) -> Steps[tuple[Any, bool]]:
        """The whole request, if it is short or can't be divided; else the end of it."""
        path = READ_ANEW.get(ApiKey(self._asking.request_type.API_KEY))
        if path is not None:
            return (yield from read_with(self._parts(), self._asking.read, path)), True
        whole: Any = None
        last: Any = None
        count = 0
        for part in self._parts():
            if count or part is None:
                yield None
            if part is None:
                continue
            last = self._asking.read(part.message)
            count += 1
            if whole is None:
                whole = last
            elif self._division is None:
                merge(whole, last, part.goes_on)
        return (whole, True) if count == 1 or self._division is None else (last, False)

    def _settled(self, request: Any, of: Whole | None) -> Steps[Any]:
        """The answer to a request, after all waits but one in the purgatory."""
        reply = self._asking.answer(request, of)
        while isinstance(reply, Reply):
            try:
                yield reply.after
            except ApiError as error:
                reply = self._asking.go_on(request, reply, error)
            else:
                reply = self._asking.go_on(request, reply, None)
        return reply

    def _written(self, reply: Any) -> Steps[Any]:
        """A long answer as bytes, but one of records, which stay in their files."""
        if type(reply) is not self._asking.response_type or reply.API_KEY in _NEVER_JOINED:
            return reply
        return (yield from written(reply, self._asking.version))

    def _in_parts(self, end: Any) -> Steps[Any]:
        division = self._division
        assert division is not None
        repeats = _Repeats(division, self._asking.version)
        if division.again is not Again.ANSWERED:
            for found in self._requests(division, end):
                if found is not None:
                    repeats.look(*found)
                yield None
        told = frozenset(repeats.names()) if division.again is Again.TOLD else frozenset()
        whole = Whole(told, repeats.traits)
        answer = Joined(self._asking.response_type, self._asking.version, division.answered)
        for found in self._requests(division, end):
            if found is not None:
                request, goes_on = found
                if division.again is Again.ONCE:
                    repeats.gather(request, goes_on)
                answer.add((yield from self._settled(request, whole)), len(goes_on))
            yield None
        yield from repeats.let_go()
        return answer

    def _requests(self, division: Division, end: Any) -> Iterator[tuple[Any, tuple[str, ...]] | None]:
        """The parts as requests, and what each goes on with, or None after other work. An element that is cut itself
        comes in one part.
        """
        held: Any = None
        held_goes_on: tuple[str, ...] = ()
        for part in self._parts():
            if part is None:
                yield None
                continue
            request = self._asking.read(part.message)
            if held is None:
                held = request
            elif len(part.goes_on) < len(division.asked) and part.goes_on == division.asked[: len(part.goes_on)]:
                yield _ending(held, end), held_goes_on
                held, held_goes_on = request, part.goes_on
            else:
                merge(held, request, part.goes_on)
                yield None
        yield _ending(held, end), held_goes_on


def _ending(request: Any, end: Any) -> Any:
    """With the fields that stand behind the lists."""
    for name in request.__match_args__:
        value = getattr(end, name)
        if not isinstance(value, list):
            setattr(request, name, value)
    return request


class _Repeats:
    """What a request names more than once, below the same element of the list above, and its traits."""

    def __init__(self, division: Division, version: int) -> None:
        self.traits: set[Hashable] = set()
        self._trait = division.trait
        self._version = version
        self._path = division.asked
        self._named_by = division.named_by
        self._seen: set[Hashable] = set()
        self._last: dict[tuple[int, Hashable], Any] = {}
        self._above = -1  # the number of the element that they are below
        self._gathered: set[tuple[int, Hashable]] | None = None

    def names(self) -> list[Hashable]:
        return [name for _, name in self._last]

    def let_go(self) -> Steps[None]:
        """They are not asked for any more."""
        for one in (self.traits, self._seen, self._last, self._gathered):
            if one:
                yield from emptied(one)

    def look(self, request: Any, goes_on: tuple[str, ...]) -> None:
        """At the next part."""
        for above, elements in self._lists(request, goes_on):
            for element in elements:
                name = self._name(element)
                if name in self._seen:
                    self._last[above, name] = element
                else:
                    self._seen.add(name)
                if self._trait is not None:
                    self.traits.add(self._trait(element, self._version))

    def gather(self, request: Any, goes_on: tuple[str, ...]) -> None:
        """Let what is named again stand with its first time."""
        if self._gathered is None:
            self._gathered, self._above = set(), -1
        if not self._last:
            return
        for above, elements in self._lists(request, goes_on):
            kept = []
            for element in elements:
                name = above, self._name(element)
                if name not in self._last:
                    kept.append(element)
                elif name not in self._gathered:
                    self._gathered.add(name)
                    kept += [element, self._last[name]]
            elements[:] = kept

    def _lists(self, request: Any, goes_on: tuple[str, ...]) -> Iterator[tuple[int, list[Any]]]:
        holders = [request]
        for name in self._path[:-1]:
            holders = [inner for holder in holders for inner in getattr(holder, name)]
        for number, holder in enumerate(holders):
            if number or len(goes_on) < len(self._path) - 1 or self._above < 0:
                self._above += 1
                self._seen.clear()
            yield self._above, getattr(holder, self._path[-1])

    def _name(self, element: Any) -> Hashable:
        named_by = self._named_by
        if callable(named_by):
            return named_by(element)
        if not named_by:
            return element  # type: ignore[no-any-return]
        if len(named_by) == 1:
            return getattr(element, named_by[0])  # type: ignore[no-any-return]
        return tuple(getattr(element, name) for name in named_by)


__all__ = ["Answering", "served"]
