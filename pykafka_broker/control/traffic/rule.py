"""One fault: whom it meets and what it does.

Rule: it meets what fits all that it names. Of what fits, `every`, `probability` and `times` choose, in this order;
what they have chosen is a hit. A probability draws from a seed, so that the same traffic meets the same faults.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.mentions import Known, Mentions, mentions_of

Drop = Literal["before", "after"]
Connect = Literal["refuse", "hang"]
ClockName = Literal["broker", "wall"]


@dataclass
class Match:
    """Whom a fault meets; a name may have a `*` for anything."""

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

    @property
    def names_places(self) -> bool:
        """Whether it is about some topics or partitions only."""
        return self.topic is not None or self.partition is not None


@dataclass
class Action:
    """What a fault does. `applied`: the request is carried out, and its answer says the error all the same."""

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

    @property
    def on_request(self) -> bool:
        """Whether it begins before the request is carried out."""
        refuses = self.error is not None and not self.applied
        return bool(refuses or self.delay_ms or self.hang or self.drop == "before")


class Rule:
    """A fault that is in force. `held` are the requests that it keeps waiting: what goes on with each."""

    def __init__(self, id: int, match: Match, action: Action) -> None:
        self.id = id
        self.match = match
        self.action = action
        self.hits = 0
        self.held: dict[int, Callable[[], None]] = {}
        self._fitting = 0
        self._random = random.Random(match.seed)
        self._patterns = {
            name: pattern(text)
            for name in ("client_id", "principal", "topic", "group", "transactional_id")
            if (text := getattr(match, name)) is not None
        }

    @property
    def spent(self) -> bool:
        """Whether it meets nothing any more."""
        return self.match.times is not None and self.hits >= self.match.times

    def fits(self, exchange: Exchange, known: Known) -> bool:
        """Whether the request is what it is meant for."""
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
        if match.group is not None and not any(self._like("group", each) for each in mentions.groups):
            return False
        return match.transactional_id is None or any(
            self._like("transactional_id", each) for each in mentions.transactional_ids
        )

    def meets(self, topic: str, partition: int | None) -> bool:
        """Whether it is about this partition, or about the topic as a whole where that is what is named."""
        if self.match.topic is not None and not self._like("topic", topic):
            return False
        return self.match.partition is None or partition is None or self.match.partition == partition

    def _like(self, name: str, text: str | None) -> bool:
        return text is not None and self._patterns[name].fullmatch(text) is not None

    def chooses(self) -> bool:
        """Whether this one, of those that fit, is met; counts it."""
        match = self.match
        self._fitting += 1
        if self.spent or self._fitting % match.every:
            return False
        if match.probability < 1 and self._random.random() >= match.probability:
            return False
        self.hits += 1
        return True


def pattern(text: str) -> re.Pattern[str]:
    """A text in which a `*` stands for anything."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
