"""Faults: errors, delays and broken connections made on purpose, with which clients have to cope."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.control.api.requests import last_requests, told_requests
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.traffic.exchange import error_name
from pykafka_broker.control.traffic.faults import Action, ClockName, Connect, Drop, Match, Rule
from pykafka_broker.control.traffic.readable import api_keys, error_code
from pykafka_broker.protocol.api_keys import SPECS, ApiKey

Apis = str | list[str] | None
Count = Annotated[int, ValueLimits(minimum=1, maximum=1 << 31)]
Milliseconds = Annotated[int, ValueLimits(minimum=0, maximum=3_600_000)]
Share = Annotated[float, ValueLimits(minimum=0, maximum=1)]
Seed = Annotated[int, ValueLimits(minimum=0, maximum=(1 << 53) - 1)]
TimeoutMs = Annotated[int, ValueLimits(minimum=0, maximum=3_600_000, says="milliseconds of real time")]
_MOST_FAULTS = 1000
_WITH_RECORDS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})


@dataclass
class FaultAnswer:
    """A fault: the numbers of hits and of held requests, and the definition."""

    id: int
    hits: int
    held: int
    spent: bool
    api: list[str] | None
    version: int | None
    client_id: str | None
    principal: str | None
    connection: int | None
    listener: str | None
    topic: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    every: int
    times: int | None
    probability: float
    seed: int
    error: str | None
    applied: bool
    delay_ms: int
    delay_clock: str
    drop: str | None
    cut: bool
    corrupt: bool
    hang: bool
    throttle_ms: int
    connect: str | None


@dataclass
class ChaosStateAnswer:
    """Random faults: a share of all requests is disturbed, drawn from the seed."""

    seed: int
    rate: float
    hits: int


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
) -> FaultAnswer:
    """Disturb requests that fit everything named here; a `*` in a name stands for anything. Of the fitting requests,
    the fault meets each n-th (`every`), a share of these (`probability`, drawn from `seed`), and of that share the
    first n (`times`). What happens to them: `error` answers an error (by name), for the named topic or partition alone
    if one is named, and with `applied` the request is carried out all the same; `delay_ms` waits by the clock of the
    broker or of the wall (`delay_clock`); `drop` closes the connection before or after the request is carried out;
    `cut` sends half of the answer; `corrupt` spoils the CRC of fetched records; `hang` does not answer until the fault
    is removed; `throttle_ms` is told to the client; `connect` refuses new connections, or lets them wait. If several
    faults fit a request, the first one acts.
    """
    if len(list(control.observing.faults)) >= _MOST_FAULTS:
        raise Problem(409, f"there are {_MOST_FAULTS} faults already; remove some")
    seed = random.getrandbits(32) if seed is None else seed
    who = (api_keys(api), version, client_id, connection, listener)
    match = Match(*who, topic, partition, group, transactional_id, every, times, probability, seed, principal)
    code = None if error is None else error_code(error)
    action = Action(code, applied, delay_ms, delay_clock, drop, cut, corrupt, hang, throttle_ms, connect)
    _check(match, action)
    return _fault(control.observing.faults.add(match, action))


def _check(match: Match, action: Action) -> None:
    plain = Action(applied=action.applied, delay_clock=action.delay_clock)
    if action == plain:
        raise Problem(
            400, "a fault must do something: error, delay_ms, drop, cut, corrupt, hang, throttle_ms or connect"
        )
    if action.connect is not None and action != Action(connect=action.connect):
        raise Problem(400, "connect can't be had together with what happens to requests")
    of_requests = (match.version, match.client_id, match.principal, match.topic, match.partition, match.group)
    if action.connect is not None and (match.api or {*of_requests, match.transactional_id} != {None}):
        raise Problem(
            400, "who connects has not asked for anything yet: connect takes listener, every, times, probability"
        )
    if action.applied and action.error is None:
        raise Problem(400, "applied needs an error")
    if action.corrupt and match.api is not None and not match.api & _WITH_RECORDS:
        raise Problem(400, "corrupt is for records that are fetched: api must be Fetch or ShareFetch")
    if sum((action.error is not None, action.drop is not None, action.cut, action.hang)) > 1:
        raise Problem(400, "error, drop, cut and hang can't be had together: what would the client be answered?")


def faults(control: Control) -> list[FaultAnswer]:
    """Return all faults, the oldest first."""
    return [_fault(each) for each in control.observing.faults]


def fault(control: Control, fault: int) -> FaultAnswer:
    """Return a fault with its hits and definition, also after its removal."""
    return _fault(_find(control, fault))


def remove_fault(control: Control, fault: int) -> FaultAnswer:
    """Remove a fault and return its last state; held requests are carried out now."""
    found = _find(control, fault)
    control.observing.faults.remove(fault)
    return _fault(found)


def clear_faults(control: Control) -> None:
    """Remove all faults, chaos included."""
    control.observing.faults.clear()


async def wait_for_fault(control: Control, fault: int, n: Count = 1, timeout_ms: TimeoutMs = 10_000) -> FaultAnswer:
    """Wait until a fault has met `n` requests. 408 if it has not within `timeout_ms`."""
    rule = _find(control, fault)
    if await control.until(lambda: rule.hits >= n or None, timeout_ms / 1000) is None:
        told = f"fault {fault} affected {rule.hits} requests within {timeout_ms} ms, expected {n}"
        raise Problem(408, told + told_requests(last_requests(control)))
    return _fault(rule)


def chaos(control: Control, seed: Seed, rate: Share = 0.05) -> ChaosStateAnswer:
    """Disturb a share of all requests by faults from which clients have to recover by themselves: errors that may be
    retried, delays, throttling, connections that break. What the n-th request of a client id to an API meets depends on
    the seed alone. A rate of 0 ends the chaos.
    """
    if rate == 0:
        control.observing.faults.end_chaos()
        return ChaosStateAnswer(seed, rate, 0)
    found = control.observing.faults.set_chaos(seed, rate)
    return ChaosStateAnswer(found.seed, found.rate, found.hits)


def _find(control: Control, fault: int) -> Rule:
    found = control.observing.faults.find(fault)
    if found is None:
        there = ", ".join(str(each.id) for each in control.observing.faults)
        raise Problem(404, f"there is no fault {fault}; {f'there are {there}' if there else 'there is none'}")
    return found


def _fault(rule: Rule) -> FaultAnswer:
    match, action = rule.match, rule.action
    names = None if match.api is None else sorted(SPECS[key].name for key in match.api)
    error = None if action.error is None else error_name(action.error)
    stated = {**vars(match), **vars(action), "api": names, "error": error}
    return FaultAnswer(id=rule.id, hits=rule.hits, held=len(rule.held), spent=rule.spent, **stated)
