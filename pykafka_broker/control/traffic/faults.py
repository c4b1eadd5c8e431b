"""Faults: requests to meet, effects, the table of all faults, and faults drawn at random.

Rule: a fault meets the requests that fit all fields of its match. `every`, `probability` and `times`, in this order,
choose among the fitting requests; a chosen request is a hit. A probability is drawn from a seed, so the same traffic
meets the same faults. `nth` chooses a single request instead, counted as the requests arrive, whatever else they meet.

If several faults fit a request, only the first one acts. A fault with an effect before the request is served is chosen
when the request comes, all others when the answer leaves, so that a waiting fetch is met too. A removed fault releases
all requests it holds, and does nothing more to those that wait for an answer. The hits of a removed fault can be asked
for until a thousand later faults have ended.

Chaos: the fault of a client's n-th request to an API depends on the seed, the client id, the API and n alone, so a run
is repeatable whatever happens at the same time, and each fault that was drawn can be had as a fault with `nth`. A chaos
may be limited to some requests, as a fault is; the others are not counted. Clients
must be able to recover from every drawn fault by themselves: errors to be retried, delays, broken connections, moved
leaders and coordinators, ended sessions.
"""

from __future__ import annotations

import random
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.mentions import Known, Mentions, mentions_of
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode

Drop = Literal["before", "after"]
Connect = Literal["refuse", "hang"]
ClockName = Literal["broker", "wall"]
Event = Literal["bump_leader_epoch", "move_coordinator", "expire_member"]


@dataclass
class Match:
    """The requests a fault meets; a name may have a `*` for anything."""

    api: frozenset[int] | None = None
    version: int | None = None
    client_id: str | None = None
    connection: int | None = None
    listener: str | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    every: int = 1
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    principal: str | None = None
    nth: int | None = None

    @property
    def names_places(self) -> bool:
        """Return whether the match is limited to some topics or partitions."""
        return self.topic is not None or self.partition is not None


@dataclass
class Action:
    """The effect of a fault.

    applied: the request is carried out, and the answer has the error all the same.
    event: it befalls what the request names, before the request is carried out.
    """

    error: int | None = None
    applied: bool = False
    delay_ms: int = 0
    delay_clock: ClockName = "broker"
    drop: Drop | None = None
    cut: bool = False
    corrupt: bool = False
    hang: bool = False
    throttle_ms: int = 0
    connect: Connect | None = None
    event: Event | None = None

    @property
    def on_request(self) -> bool:
        """Return whether the effect begins before the request is carried out."""
        refuses = self.error is not None and not self.applied
        return bool(refuses or self.delay_ms or self.hang or self.drop == "before" or self.event)


class Rule:
    """A fault in force. `held` has a continuation for each delayed request; `fitted` counts the fitting requests."""

    def __init__(self, id: int, match: Match, action: Action) -> None:
        self.id = id
        self.match = match
        self.action = action
        self.hits = 0
        self.held: dict[int, Callable[[], None]] = {}
        self.fitted = 0
        self._random = random.Random(match.seed)
        self._patterns = {
            name: pattern(text)
            for name in ("client_id", "principal", "topic", "group", "transactional_id")
            if (text := getattr(match, name)) is not None
        }

    @property
    def spent(self) -> bool:
        """Return whether no further request can be met."""
        if self.match.nth is not None:
            return self.fitted >= self.match.nth
        return self.match.times is not None and self.hits >= self.match.times

    def fits(self, exchange: Exchange, known: Known) -> bool:
        """Return whether the request fits the match."""
        match = self.match
        if match.api is not None and exchange.api_key not in match.api:
            return False
        if match.version is not None and exchange.version != match.version:
            return False
        if not self.fits_connection(exchange.connection.id, exchange.connection.listener):
            return False
        if match.client_id is not None and not self._like("client_id", exchange.client_id):
            return False
        if match.principal is not None and not self._like("principal", exchange.connection.principal):
            return False
        if match.names_places or match.group is not None or match.transactional_id is not None:
            return self._fits_mentions(mentions_of(exchange.request, known))
        return True

    def fits_connection(self, connection: int, listener: str) -> bool:
        return self.match.connection in (None, connection) and self.match.listener in (None, listener)

    def _fits_mentions(self, mentions: Mentions) -> bool:
        match = self.match
        if match.names_places and not (mentions.all_topics or any(self.meets(*place) for place in mentions.places)):
            return False
        if match.group is not None and not any(map(self.meets_group, mentions.groups)):
            return False
        return match.transactional_id is None or any(map(self.meets_transactional_id, mentions.transactional_ids))

    def meets(self, topic: str, partition: int | None) -> bool:
        """Return whether the rule is about the partition, or about the topic where no partition is named."""
        if self.match.topic is not None and not self._like("topic", topic):
            return False
        return self.match.partition is None or partition is None or self.match.partition == partition

    def meets_group(self, group: str) -> bool:
        """Return whether the rule is about the group."""
        return self.match.group is None or self._like("group", group)

    def meets_transactional_id(self, transactional_id: str) -> bool:
        """Return whether the rule is about the transactional id."""
        return self.match.transactional_id is None or self._like("transactional_id", transactional_id)

    def _like(self, name: str, text: str | None) -> bool:
        return text is not None and self._patterns[name].fullmatch(text) is not None

    def chooses(self) -> bool:
        """Return whether a fitting request is met, and count the request."""
        match = self.match
        self.fitted += 1
        if self.spent or self.fitted % match.every:
            return False
        if match.probability < 1 and self._random.random() >= match.probability:
            return False
        self.hits += 1
        return True

    def is_nth(self) -> bool:
        """Return whether a fitting request is the n-th, and count the request."""
        self.fitted += 1
        if self.fitted != self.match.nth:
            return False
        self.hits += 1
        return True


def pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a text in which `*` stands for anything."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


CHAOS_ID = 0
_LONGEST_DELAY_MS = 200
_PARTITION_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
_COORDINATOR_ERRORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_ERRORS: dict[int, tuple[ErrorCode, ...]] = {
    ApiKey.PRODUCE: (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS),
    ApiKey.FETCH: (ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    ApiKey.LIST_OFFSETS: _PARTITION_ERRORS,
    ApiKey.METADATA: (ErrorCode.LEADER_NOT_AVAILABLE,),
    ApiKey.OFFSET_COMMIT: _COORDINATOR_ERRORS,
    # librdkafka gives up with the others, and reads nothing until the next rebalance
    ApiKey.OFFSET_FETCH: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    ApiKey.FIND_COORDINATOR: (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    ApiKey.JOIN_GROUP: _COORDINATOR_ERRORS,
    ApiKey.SYNC_GROUP: _COORDINATOR_ERRORS,
    ApiKey.HEARTBEAT: _COORDINATOR_ERRORS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _COORDINATOR_ERRORS,
    ApiKey.INIT_PRODUCER_ID: _COORDINATOR_ERRORS,
    ApiKey.ADD_PARTITIONS_TO_TXN: (*_COORDINATOR_ERRORS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ApiKey.ADD_OFFSETS_TO_TXN: (*_COORDINATOR_ERRORS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ApiKey.TXN_OFFSET_COMMIT: _COORDINATOR_ERRORS,
    ApiKey.END_TXN: _COORDINATOR_ERRORS,
}


_OF_LEADERS: tuple[Event, ...] = ("bump_leader_epoch",)
_OF_TRANSACTIONS: tuple[Event, ...] = ("move_coordinator",)
_OF_GROUPS: tuple[Event, ...] = ("move_coordinator", "expire_member")
_EVENTS: dict[int, tuple[Event, ...]] = {
    **dict.fromkeys((ApiKey.PRODUCE, ApiKey.FETCH), _OF_LEADERS),
    **dict.fromkeys((ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN), _OF_TRANSACTIONS),
    **dict.fromkeys((ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT), _OF_GROUPS),
    **dict.fromkeys((ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT), _OF_GROUPS),
}
_SHARE_OF_EVENTS = 0.2
_MOST_MET = 10_000


class DrawnFault(NamedTuple):
    """A fault that was drawn. nth: the number of the client's request to the API, from 1."""

    client_id: str | None
    api_key: int
    nth: int
    action: Action


class Chaos:
    """Faults drawn at random, for a share of all requests.

    events: leaders and coordinators move and sessions end, too.
    match: the requests that may be disturbed, by API, client id, topic and group.
    met: the first faults that were drawn. held: as in `Rule`, of all of them.
    """

    def __init__(self, seed: int, rate: float, events: bool = False, match: Match | None = None) -> None:
        self.seed = seed
        self.rate = rate
        self.events = events
        self.match = match or Match()
        self._limit = Rule(CHAOS_ID, self.match, Action())
        self.hits = 0
        self.met: list[DrawnFault] = []
        self.held: dict[int, Callable[[], None]] = {}
        self._asked: Counter[tuple[str | None, int]] = Counter()

    @property
    def fitted(self) -> int:
        """The number of requests that might have been disturbed."""
        return self._asked.total()

    def on_request(self, exchange: Exchange, known: Known) -> Rule | None:
        """Return the rule the request meets, or None."""
        if not self._limit.fits(exchange, known):
            return None
        who = exchange.client_id, exchange.api_key
        self._asked[who] += 1
        action = self.drawn(*who, self._asked[who])
        if action is None:
            return None
        self.hits += 1
        if len(self.met) < _MOST_MET:
            self.met.append(DrawnFault(*who, self._asked[who], action))
        rule = Rule(CHAOS_ID, self.match, action)
        rule.held = self.held
        return rule

    def drawn(self, client_id: str | None, api_key: int, number: int) -> Action | None:
        """Return the action for the n-th request of a client to an API, or None."""
        chance = random.Random(f"{self.seed} {client_id} {api_key} {number}")
        if chance.random() >= self.rate:
            return None
        if self.events and api_key in _EVENTS and chance.random() < _SHARE_OF_EVENTS:
            return Action(event=chance.choice(_EVENTS[api_key]))
        kind = chance.choice(("error", "error", "delay", "drop before", "drop after", "throttle"))
        if kind == "error" and api_key in _ERRORS:
            return Action(error=chance.choice(_ERRORS[api_key]))
        if kind == "drop before":
            return Action(drop="before")
        if kind == "drop after":
            return Action(drop="after")
        if kind == "throttle":
            return Action(throttle_ms=chance.randint(1, _LONGEST_DELAY_MS))
        return Action(delay_ms=chance.randint(1, _LONGEST_DELAY_MS))


PAUSE_ID = -1
_MOST_ENDED = 1_000


class FaultTable:
    """All faults, in order.

    `on_added` is called with each new one. `last_chaos` is the present or the last chaos, `last_id` the id of the
    youngest fault.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.on_added: Callable[[Rule], None] | None = None
        self.chaos: Chaos | None = None
        self.last_chaos: Chaos | None = None
        self._rules: dict[int, Rule] = {}
        self._ended: OrderedDict[int, Rule] = OrderedDict()
        self._paused: tuple[Rule, Rule] | None = None  # one rule holds requests, the other new connections
        self._spares: Callable[[Exchange], bool]
        self.last_id = 0
        self.watching = False  # whether requests may meet anything, or are recorded; asked for every request
        self.disturbing = False  # whether they may meet anything
        self._recording = False

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def add(self, match: Match, action: Action) -> Rule:
        """Add a fault behind the others."""
        self.last_id += 1
        rule = self._rules[self.last_id] = Rule(self.last_id, match, action)
        self.watching = self.disturbing = True
        if self.on_added is not None:
            self.on_added(rule)
        return rule

    def set_chaos(self, seed: int, rate: float, events: bool = False, match: Match | None = None) -> Chaos:
        """Disturb at random from now on; replaces an earlier chaos."""
        self.end_chaos()
        self.chaos = self.last_chaos = Chaos(seed, rate, events, match)
        self.watching = self.disturbing = True
        return self.chaos

    def end_chaos(self) -> None:
        """End the chaos; requests that it delays are carried out now."""
        chaos, self.chaos = self.chaos, None
        if chaos is not None:
            self._release(chaos)
        self._look()

    def find(self, id: int) -> Rule | None:
        """Return a fault, also a removed fault."""
        return self._rules.get(id) or self._ended.get(id)

    def remove(self, id: int) -> None:
        """Remove a fault; held requests are carried out now."""
        rule = self._rules.pop(id, None)
        if rule is not None:
            self._end(rule)
        self._look()

    def _end(self, rule: Rule) -> None:
        self._release(rule)
        self._ended[rule.id] = rule
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def clear(self) -> None:
        """Remove all faults, chaos included."""
        rules, self._rules = self._rules, {}  # what one of them held meets none of the others
        for rule in rules.values():
            self._end(rule)
        self.end_chaos()

    def forget(self) -> None:
        """Remove all faults and end a pause, so nothing of a test disturbs the next test."""
        self.clear()
        self.last_chaos = None
        self.unpause()

    def in_force(self, rule: Rule) -> bool:
        """Return whether a rule that has met a request still acts."""
        return self.chaos is not None if rule.id == CHAOS_ID else rule.id in self._rules

    def _release(self, rule: Rule | Chaos) -> None:
        for go_on in list(rule.held.values()):
            go_on()
        rule.held.clear()

    def pause(self, spares: Callable[[Exchange], bool] = lambda exchange: False) -> None:
        """Hold all requests, but those that it spares, and all new connections. `clear` does not end a pause."""
        if self._paused is None:
            self._spares = spares
            self._paused = Rule(PAUSE_ID, Match(), Action(hang=True)), Rule(PAUSE_ID, Match(), Action(connect="hang"))
            self.watching = self.disturbing = True
            if self.on_added is not None:
                self.on_added(self._paused[0])

    def pause_of(self, exchange: Exchange) -> Rule | None:
        """Return the rule of a pause, holding a request or the answer to an earlier one; None where none does."""
        return None if self._paused is None or self._spares(exchange) else self._paused[0]

    def unpause(self) -> None:
        """End a pause."""
        if self._paused is not None:
            paused, self._paused = self._paused, None
            self._look()
            for rule in paused:
                self._release(rule)

    def set_recording(self, recording: bool) -> None:
        """Let requests go the way of those that may meet something, where their frames are whole."""
        self._recording = recording
        self._look()

    def _look(self) -> None:
        self.disturbing = bool(self._rules) or self.chaos is not None or self._paused is not None
        self.watching = self.disturbing or self._recording

    # -- whom they meet

    def on_request(self, exchange: Exchange) -> Rule | None:
        """Return the rule meeting a request on arrival."""
        if (paused := self.pause_of(exchange)) is not None:
            return paused
        met: Rule | None = None
        for rule in self._rules.values():
            if rule.spent or (met is not None and rule.match.nth is None):
                continue  # only those that count requests go on counting
            if rule.match.nth is not None:
                if rule.fits(exchange, self.known) and rule.is_nth() and met is None:
                    met = rule
            elif rule.action.on_request and rule.fits(exchange, self.known) and rule.chooses():
                met = rule
        if met is not None:
            return met
        return None if self.chaos is None else self.chaos.on_request(exchange, self.known)

    def on_answer(self, exchange: Exchange, bites: Callable[[Rule], bool]) -> Rule | None:
        """Return the rule meeting an answer; `bites` says whether a rule has an effect."""
        for rule in self._rules.values():
            action = rule.action
            if action.on_request or action.connect is not None or rule.match.nth is not None or rule.spent:
                continue
            if rule.fits(exchange, self.known) and bites(rule) and rule.chooses():
                return rule
        return None

    def on_connect(self, connection: int, listener: str) -> Rule | None:
        """Return the rule meeting a new connection."""
        if self._paused is not None:
            return self._paused[1]
        for rule in self._rules.values():
            if rule.action.connect is not None and rule.fits_connection(connection, listener) and rule.chooses():
                return rule
        return None
