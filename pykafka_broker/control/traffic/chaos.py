"""Faults drawn at random, the same ones from the same seed.

Rule: what the n-th request of a client to an API meets depends on the seed, the client's id, the API and n alone, so
that a run is repeatable whatever else goes on at the same time. Only what clients have to recover from by themselves is
drawn: errors that may be retried, delays, and connections that break.
"""

from __future__ import annotations

import random
from collections import Counter

from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.rule import Action, Match, Rule
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode

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
    ApiKey.OFFSET_FETCH: _COORDINATOR_ERRORS,
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


class Chaos:
    """Disturbs that share of all requests."""

    def __init__(self, seed: int, rate: float) -> None:
        self.seed = seed
        self.rate = rate
        self.hits = 0
        self._asked: Counter[tuple[str | None, int]] = Counter()

    def on_request(self, exchange: Exchange) -> Rule | None:
        """What this request meets, or None."""
        who = exchange.client_id, exchange.api_key
        self._asked[who] += 1
        action = self.drawn(exchange.client_id, exchange.api_key, self._asked[who])
        if action is None:
            return None
        self.hits += 1
        return Rule(CHAOS_ID, Match(), action)

    def drawn(self, client_id: str | None, api_key: int, number: int) -> Action | None:
        """What the request of that number meets."""
        chance = random.Random(f"{self.seed} {client_id} {api_key} {number}")
        if chance.random() >= self.rate:
            return None
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
