"""The requests of clients with their answers, the connections, and faults.

A fault disturbs requests: an error, a delay or a broken connection made on purpose, with which clients have to cope.
"""

from __future__ import annotations

import random
from collections import deque
from functools import partial
from typing import Annotated, cast

from pykafka_broker.control.answers import Advice, ChaosHit, ChaosState, Connected, FaultAnswer, SeenRequestAnswer
from pykafka_broker.control.api.incidents import befall
from pykafka_broker.control.control import Control, looked_at
from pykafka_broker.control.problems import NOT_IN_TIME, Problem, did_you_mean
from pykafka_broker.control.schema import Index, TimeoutMs, ValueLimits
from pykafka_broker.control.traffic.advice import Adviser
from pykafka_broker.control.traffic.exchange import Exchange, error_name
from pykafka_broker.control.traffic.faults import Action, Chaos, ClockName, Connect, Drop, Event, Match, Rule, pattern
from pykafka_broker.control.traffic.mentions import mentionable
from pykafka_broker.control.traffic.readable import api_keys, error_code, line, seen
from pykafka_broker.errors import counted
from pykafka_broker.protocol.api_keys import SPECS, ApiKey

Apis = str | list[str] | None
MostRequests = Annotated[int, ValueLimits(minimum=1, maximum=10_000)]
Count = Annotated[int, ValueLimits(minimum=1, maximum=1 << 31)]
Milliseconds = Annotated[int, ValueLimits(minimum=0, maximum=3_600_000)]
Share = Annotated[float, ValueLimits(minimum=0, maximum=1)]
Seed = Annotated[int, ValueLimits(minimum=0, maximum=(1 << 53) - 1)]
_LAST_SHOWN = 10
_MOST_FAULTS = 1000
_WITH_RECORDS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_BEFALLEN: dict[Event, tuple[str, ...]] = {  # a request must name one of them
    "bump_leader_epoch": ("topic",),
    "move_coordinator": ("group", "transactional_id"),
    "expire_member": ("member",),
}


# -- requests


class RequestFilter:
    """A filter of the request log. Raises `Problem` for one that no request can fit."""

    def __init__(
        self, control: Control, match: Match, error: str | None, since: int | None, before: int | None = None
    ) -> None:
        _check_match(control, match)
        self._rule = Rule(0, match, Action())
        self._known = control.observing.known
        self._error = None if error is None else error_name(error_code(error))
        self._since, self._before = since, before

    def fits(self, exchange: Exchange) -> bool:
        """Return whether a request is wanted."""
        return (
            (self._before is None or (exchange.number is not None and exchange.number < self._before))
            and (self._since is None or exchange.wall_ms >= self._since)
            and self._rule.fits(exchange, self._known)
            and (self._error is None or self._error in exchange.errors)
        )


async def requests(
    control: Control,
    api: str | None = None,
    version: int | None = None,
    client_id: str | None = None,
    principal: str | None = None,
    connection: int | None = None,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    error: str | None = None,
    since: int | None = None,
    after: int = 0,
    before: int | None = None,
    waiting: bool = True,
    bodies: bool = False,
    records: bool = False,
    limit: MostRequests = 1000,
) -> list[SeenRequestAnswer]:
    """Return the last requests of clients, in the order of the answers; waiting requests come last. A name may have a
    `*` for anything. `since` is a time (milliseconds since 1970), `after` and `before` are a request's `number`; of
    more than `limit` fitting requests the newest are returned. `bodies` decodes requests and responses, `records` the
    records in these too, as far as the log has kept them: the first 16 KiB of a request, and small batches of an
    answer.
    """
    names = (connection, None, topic, None, group, transactional_id)
    match = Match(api_keys(api), version, client_id, *names, principal=principal)
    asked = RequestFilter(control, match, error, since, before)
    unanswered = list(control.observing.log.unanswered()) if waiting else []  # some may be answered meanwhile
    found = deque(await _answered(control, asked, after), limit)
    found.extend(filter(asked.fits, unanswered))
    return [each async for each in looked_at(found, lambda exchange: seen(exchange, bodies, records))]


async def _answered(control: Control, asked: RequestFilter, after: int) -> list[Exchange]:
    """Return the wanted entries of the log, behind one of them; clients are served meanwhile."""
    logged = list(control.observing.log.since(after))  # the log changes in between
    found = looked_at(logged, lambda exchange: exchange if asked.fits(exchange) else None)
    return [each async for each in found if each is not None]


def clear_requests(control: Control) -> None:
    """Empty the request log."""
    control.observing.log.clear()


async def wait_for_request(
    control: Control,
    api: Apis = None,
    version: int | None = None,
    client_id: str | None = None,
    principal: str | None = None,
    connection: int | None = None,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    error: str | None = None,
    since: int | None = None,
    after: int = 0,
    waiting: bool = True,
    n: MostRequests = 1,
    bodies: bool = False,
    timeout_ms: TimeoutMs = 10_000,
) -> list[SeenRequestAnswer]:
    """Wait until the log has `n` fitting requests, answered or waiting, and return the requests. 408 otherwise."""
    names = (connection, None, topic, None, group, transactional_id)
    match = Match(api_keys(api), version, client_id, *names, principal=principal)
    asked, log = RequestFilter(control, match, error, since), control.observing.log
    looked_at = max(after, log.last_number)
    answered = await _answered(control, asked, after)

    def enough() -> list[Exchange] | None:
        nonlocal looked_at
        answered.extend(filter(asked.fits, log.since(looked_at)))
        looked_at = max(looked_at, log.last_number)
        found = answered
        if waiting and len(found) < n:
            found = answered + list(filter(asked.fits, log.unanswered()))
        return found if len(found) >= n else None

    found = await control.until(enough, timeout_ms / 1000)
    if found is None:
        last = last_requests(control)
        told = f"after {timeout_ms} ms {len(answered)} such requests, expected {n}{told_requests(last)}"
        raise Problem(NOT_IN_TIME, told, more={"last_requests": last})
    return [seen(each, bodies) for each in found]


async def advice(control: Control, client_id: str | None = None) -> list[Advice]:
    """Return what clients should change, from the requests in the log. A client id may have a `*` for anything."""
    wanted = None if client_id is None else pattern(client_id)
    adviser = Adviser()
    exchanges = control.observing.log.since()
    fitting = [each for each in exchanges if wanted is None or wanted.fullmatch(each.client_id or "")]
    async for _ in looked_at(fitting, adviser.note):
        pass
    return adviser.advice()


def last_requests(control: Control) -> list[str]:
    """Return the last requests of all clients, a line each."""
    log = control.observing.log
    return [line(seen(each, bodies=False)) for each in deque([*log.since(), *log.unanswered()], _LAST_SHOWN)]


def told_requests(lines: list[str]) -> str:
    """Return lines of requests as the end of a failure's text."""
    return "\nthe last requests:" + "".join(f"\n  {each}" for each in lines) if lines else "\nno requests at all"


def connections(control: Control, client_id: str | None = None) -> list[Connected]:
    """Return the connections of clients, in order of arrival. A client id may have a `*` for anything."""
    wanted = None if client_id is None else pattern(client_id)
    called = control.observing.log.client_ids()
    found = []
    for connection in control.server.connections:
        context = connection.context
        name = called.get(context.id)
        if wanted is None or (name is not None and wanted.fullmatch(name)):
            software = f"{context.software_name} {context.software_version}".strip()
            found.append(
                Connected(
                    connection=context.id,
                    client_id=name,
                    principal=context.principal,
                    software=software,
                    client=connection.peer,
                    listener=context.listener,
                )
            )
    return found


def _called(connected: Connected) -> str:
    software = connected["software"]
    return f"{connected['client_id']} ({software})" if software else str(connected["client_id"])


async def wait_for_connections(
    control: Control, client_id: str | None = None, n: Index = 1, timeout_ms: TimeoutMs = 10_000
) -> list[Connected]:
    """Wait until a client id has at least `n` connections; with `n` 0, until no connection is left. A client has
    several: to bootstrap, to the broker and to its coordinator.
    """

    def holds() -> list[Connected] | None:
        found = connections(control, client_id)
        return found if (len(found) >= n if n else not found) else None

    found = await control.until(holds, timeout_ms / 1000)
    if found is None:
        ids = ", ".join(sorted({_called(each) for each in connections(control)})) or "none"
        of = "" if client_id is None else f" of client id {client_id}"
        count = len(connections(control, client_id))
        told = f"after {timeout_ms} ms {counted(count, 'connection')}{of}, expected {n}; connected are: {ids}"
        raise Problem(NOT_IN_TIME, told)
    return found


# -- faults


def add_fault(
    control: Control,
    api: Apis = None,
    version: int | None = None,
    client_id: str | None = None,
    principal: str | None = None,
    connection: int | None = None,
    listener: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    every: Count = 1,
    times: Count | None = None,
    probability: Share = 1.0,
    seed: Seed | None = None,
    nth: Count | None = None,
    error: str | int | None = None,
    applied: bool = False,
    delay_ms: Milliseconds = 0,
    delay_clock: ClockName = "broker",
    drop: Drop | None = None,
    cut: bool = False,
    corrupt: bool = False,
    hang: bool = False,
    throttle_ms: Milliseconds = 0,
    connect: Connect | None = None,
    event: Event | None = None,
) -> FaultAnswer:
    """Disturb the requests that match all named filters; a `*` in a name stands for anything. Of the matching requests,
    `every` takes each n-th, `probability` a random share of these (drawn from `seed`), and `times` the first n of that
    share; `nth` takes the n-th matching request in order of arrival and no other. The effects: `error` answers an error
    (by name), only for the named topic or partition if one is named; with `applied` the request is carried out all the
    same. `delay_ms` delays the request by the broker's clock, or by real time with the `delay_clock` "wall". `drop`
    closes the connection before or after the request is carried out. `cut` sends half of the answer. `corrupt` spoils
    the CRC of fetched records. `hang` does not answer until the fault is removed. `throttle_ms` is a throttle time for
    the client. `connect` refuses new connections, or lets them wait. `event` comes before the request is carried out:
    the session of its member ends, its coordinator moves, or its partitions get a new leader epoch. If several faults
    match a request, only the first one acts.
    """
    if len(list(control.observing.faults)) >= _MOST_FAULTS:
        raise Problem(409, f"there are {_MOST_FAULTS} faults already; remove some")
    seed = random.getrandbits(32) if seed is None else seed
    who = (api_keys(api), version, client_id, connection, listener)
    match = Match(*who, topic, partition, group, transactional_id, every, times, probability, seed, principal, nth)
    code = None if error is None else error_code(error)
    action = Action(code, applied, delay_ms, delay_clock, drop, cut, corrupt, hang, throttle_ms, connect, event)
    _check(match, action)
    _check_match(control, match)
    if event is not None:
        _let_events_befall(control, event)
    return _fault(control.observing.faults.add(match, action))


def _check_match(control: Control, match: Match) -> None:
    """Raise `Problem` for a match that no request can fit."""
    named = {"topic": match.topic, "partition": match.partition, "group": match.group}
    for name, wanted in {**named, "transactional_id": match.transactional_id}.items():
        if wanted is not None:
            _check_named(match, (name,), "none would ever match")
    if match.version is not None:
        specs = [SPECS[key] for key in match.api or SPECS]
        if not any(each.min_version <= match.version <= each.max_version for each in specs):
            name = " and ".join(sorted(each.name for each in specs)) if match.api else "no API"
            raise Problem(400, f"{name} has no version {match.version}: no request would ever match")
    if not match.probability:
        raise Problem(400, "a probability of 0 takes no request")
    if match.principal is not None and not {":", "*"} & {*match.principal}:
        raise Problem(400, f"principal is a type and a name, such as User:{match.principal}")
    if match.listener is not None and control.has_broker:
        names = [each.name for each in control.listeners]
        if match.listener not in names:
            told = did_you_mean(match.listener.upper(), names) or f"; there are {', '.join(names)}"
            raise Problem(400, f"there is no listener {match.listener}{told}")


def _check_named(match: Match, names: tuple[str, ...], otherwise: str) -> None:
    """Raise `Problem` where requests of the APIs name nothing of the kind."""
    if match.api and not any(_can_name(key, name) for key in match.api for name in names):
        apis = " and ".join(sorted(SPECS[key].name for key in match.api))
        raise Problem(400, f"requests of {apis} name no {' and no '.join(names)}: {otherwise}")


def _can_name(api_key: int, name: str) -> bool:
    if name == "member":
        return "member_id" in SPECS[api_key].request_class().__match_args__
    found = mentionable(api_key)
    named = {"group": found.groups, "transactional_id": found.transactional_ids}
    return bool(named.get(name, found.places))


def _check(match: Match, action: Action) -> None:
    plain = Action(applied=action.applied, delay_clock=action.delay_clock)
    if action == plain:
        raise Problem(
            400, "a fault must do something: error, delay_ms, drop, cut, corrupt, hang, throttle_ms, connect or event"
        )
    if action.connect is not None and action != Action(connect=action.connect):
        raise Problem(400, "connect can't be combined with effects on requests")
    of_requests = (match.version, match.client_id, match.principal, match.topic, match.partition, match.group)
    if action.connect is not None and (match.api or {*of_requests, match.transactional_id} != {None}):
        raise Problem(
            400, "a new connection has no request yet: connect takes listener, every, times, probability and seed"
        )
    if (
        action.throttle_ms
        and match.api
        and not any("throttle_time_ms" in SPECS[key].response_class().__match_args__ for key in match.api)
    ):
        apis = " and ".join(sorted(SPECS[key].name for key in match.api))
        raise Problem(400, f"answers of {apis} have no throttle time: throttle_ms has no effect")
    if action.applied and action.error is None:
        raise Problem(400, "applied needs an error")
    if action.corrupt and match.api is not None and not match.api & _WITH_RECORDS:
        raise Problem(400, "corrupt spoils fetched records: api must be Fetch or ShareFetch")
    if sum((action.error is not None, action.drop is not None, action.cut, action.hang, action.event is not None)) > 1:
        raise Problem(400, "a fault may have only one of error, drop, cut, hang and event")
    if action.event is not None:
        _check_named(match, _BEFALLEN[action.event], f"{action.event} would do nothing")
    if match.nth is not None and (match.every, match.times, match.probability) != (1, None, 1.0):
        raise Problem(400, "nth is one request: every, times and probability choose among many")
    if match.nth is not None and action.connect is not None:
        raise Problem(400, "nth counts requests: connect takes every and times")


def _let_events_befall(control: Control, *events: Event) -> None:
    if not control.has_broker:
        raise Problem(409, "a proxy has no part in what befalls its broker: event needs the broker's own control API")
    moved = {"bump_leader_epoch", "move_coordinator"}.intersection(events)
    if moved and not control.broker.node.roles.alone:
        raise Problem(
            409, f"{min(moved)} is an event of a node alone; POST /incidents/leader moves leaders of a cluster"
        )
    control.observing.on_event = partial(befall, control)


def faults(control: Control) -> list[FaultAnswer]:
    """Return all faults, the oldest first."""
    return [_fault(each) for each in control.observing.faults]


def fault(control: Control, fault: int) -> FaultAnswer:
    """Return a fault with hits and definition, also after the removal."""
    return _fault(_find(control, fault))


def remove_fault(control: Control, fault: int) -> FaultAnswer:
    """Remove a fault and return the last state; held requests are carried out now."""
    found = _find(control, fault)
    control.observing.faults.remove(fault)
    return _fault(found)


def clear_faults(control: Control) -> None:
    """Remove all faults, chaos included."""
    control.observing.faults.clear()


async def wait_for_fault(control: Control, fault: int, n: Count = 1, timeout_ms: TimeoutMs = 10_000) -> FaultAnswer:
    """Wait until a fault has met `n` requests. 408 with fewer hits after `timeout_ms`."""
    rule = _find(control, fault)
    if await control.until(lambda: rule.hits >= n or None, timeout_ms / 1000) is None:
        told = f"fault {fault} affected {counted(rule.hits, 'request')} within {timeout_ms} ms, expected {n}"
        raise Problem(NOT_IN_TIME, told + told_requests(last_requests(control)))
    return _fault(rule)


def chaos(
    control: Control,
    seed: Seed,
    rate: Share = 0.05,
    events: bool = False,
    api: Apis = None,
    client_id: str | None = None,
    topic: str | None = None,
    group: str | None = None,
) -> ChaosState:
    """Disturb a share of all requests by faults from which clients have to recover by themselves: errors to be
    retried, delays, throttling, connections that break; with `events` leaders and coordinators that move and members
    whose session ends, too. What the n-th request of a client id to an API meets depends on the seed alone. With `api`,
    `client_id`, `topic` and `group` only the requests that match all of them count, as of a fault, and only that topic
    fails. A rate of 0 ends the chaos.
    """
    match = Match(api=api_keys(api), client_id=client_id, topic=topic, group=group)
    _check_match(control, match)
    if rate == 0:
        control.observing.faults.end_chaos()
        return _chaos(Chaos(seed, rate, events, match), active=False)
    if events:
        _let_events_befall(control, "bump_leader_epoch", "move_coordinator", "expire_member")
    return _chaos(control.observing.faults.set_chaos(seed, rate, events, match), active=True)


def chaos_state(control: Control) -> ChaosState:
    """Return the present or the last chaos, with the faults that it has drawn; each can be added with `add_fault`.
    404 where there was none since the last reset.
    """
    found = control.observing.faults.last_chaos
    if found is None:
        raise Problem(404, "there was no chaos since the last reset")
    return _chaos(found, active=control.observing.faults.chaos is found)


def _chaos(chaos: Chaos, active: bool) -> ChaosState:
    match = chaos.match
    met = [
        ChaosHit(
            client_id=client_id,
            api=SPECS[api_key].name if api_key in SPECS else str(api_key),
            topic=match.topic,
            group=match.group,
            nth=nth,
            error=None if action.error is None else error_name(action.error),
            delay_ms=action.delay_ms,
            drop=action.drop,
            throttle_ms=action.throttle_ms,
            event=action.event,
        )
        for client_id, api_key, nth, action in chaos.met
    ]
    return ChaosState(
        seed=chaos.seed,
        rate=chaos.rate,
        events=chaos.events,
        api=_names_of(match),
        client_id=match.client_id,
        topic=match.topic,
        group=match.group,
        active=active,
        fitted=chaos.fitted,
        hits=chaos.hits,
        met=met,
    )


def _names_of(match: Match) -> list[str] | None:
    return None if match.api is None else sorted(SPECS[key].name for key in match.api)


def _find(control: Control, fault: int) -> Rule:
    found = control.observing.faults.find(fault)
    if found is None:
        there = ", ".join(str(each.id) for each in control.observing.faults)
        raise Problem(404, f"there is no fault {fault}; {f'there are {there}' if there else 'there are none'}")
    return found


def _fault(rule: Rule) -> FaultAnswer:
    match, action = rule.match, rule.action
    error = None if action.error is None else error_name(action.error)
    rest = {**vars(match), **vars(action), "api": _names_of(match), "error": error}
    counts = {"hits": rule.hits, "held": len(rule.held), "fitted": rule.fitted, "spent": rule.spent}
    return cast("FaultAnswer", {"id": rule.id, **counts, **rest})
