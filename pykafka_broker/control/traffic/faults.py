"""All faults, in the order in which they were added.

Rule: of several that fit a request the first one acts, and that one alone. A fault that begins before a request is
carried out decides when the request comes, the others when the answer leaves, so that a fetch that waits is met too.
One that is removed lets go of what it held. Who wants to know how often a fault acted finds it after its end too, until
a thousand others have ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from pykafka_broker.control.traffic.chaos import Chaos
from pykafka_broker.control.traffic.exchange import Exchange
from pykafka_broker.control.traffic.mentions import Known
from pykafka_broker.control.traffic.rule import Action, Match, Rule

PAUSE_ID = -1
_MOST_ENDED = 1_000


class Faults:
    """`on_added` is told of each new one."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.on_added: Callable[[Rule], None] | None = None
        self.chaos: Chaos | None = None
        self._rules: dict[int, Rule] = {}
        self._ended: OrderedDict[int, Rule] = OrderedDict()
        self._paused: tuple[Rule, Rule] | None = None  # what holds requests, and what holds who connects
        self._last_id = 0
        self.watching = False  # whether there is anything that requests may meet; asked for every request

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def add(self, match: Match, action: Action) -> Rule:
        """A new one, after the others."""
        self._last_id += 1
        rule = self._rules[self._last_id] = Rule(self._last_id, match, action)
        self.watching = True
        if self.on_added is not None:
            self.on_added(rule)
        return rule

    def set_chaos(self, seed: int, rate: float) -> Chaos:
        """Disturb at random from now on; takes the place of an earlier one."""
        self.chaos = Chaos(seed, rate)
        self.watching = True
        return self.chaos

    def end_chaos(self) -> None:
        self.chaos = None
        self._look()

    def find(self, id: int) -> Rule | None:
        """The fault, also one that was removed."""
        return self._rules.get(id) or self._ended.get(id)

    def remove(self, id: int) -> None:
        """Requests that it held are carried out now."""
        rule = self._rules.pop(id, None)
        if rule is not None:
            self._release(rule)
            self._ended[id] = rule
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        self._look()

    def clear(self) -> None:
        """Remove all, chaos included."""
        self.chaos = None
        for id in list(self._rules):
            self.remove(id)
        self._look()

    def forget(self) -> None:
        """Remove all, and let go on what was paused: nothing of a test disturbs the next one."""
        self.clear()
        self.unpause()

    def _release(self, rule: Rule) -> None:
        for go_on in list(rule.held.values()):
            go_on()
        rule.held.clear()

    def pause(self) -> None:
        """Hold all requests and all who connect. `clear` does not end it."""
        if self._paused is None:
            self._paused = Rule(PAUSE_ID, Match(), Action(hang=True)), Rule(PAUSE_ID, Match(), Action(connect="hang"))
            self.watching = True
            if self.on_added is not None:
                self.on_added(self._paused[0])

    @property
    def paused(self) -> Rule | None:
        """The one that holds requests, and answers to those that came before it, while there is a pause."""
        return None if self._paused is None else self._paused[0]

    def unpause(self) -> None:
        """Let all of them go on."""
        if self._paused is not None:
            paused, self._paused = self._paused, None
            self._look()
            for rule in paused:
                self._release(rule)

    def _look(self) -> None:
        self.watching = bool(self._rules) or self.chaos is not None or self._paused is not None

    # -- whom they meet

    def on_request(self, exchange: Exchange) -> Rule | None:
        """The one that meets a request that has come."""
        if self._paused is not None:
            return self._paused[0]
        for rule in self._rules.values():
            if rule.action.on_request and not rule.spent and rule.fits(exchange, self.known) and rule.chooses():
                return rule
        return None if self.chaos is None else self.chaos.on_request(exchange)

    def on_answer(self, exchange: Exchange, bites: Callable[[Rule], bool]) -> Rule | None:
        """The one that meets an answer that leaves; `bites` says whether it has anything to do there."""
        for rule in self._rules.values():
            action = rule.action
            if action.on_request or action.connect is not None or rule.spent:
                continue
            if rule.fits(exchange, self.known) and bites(rule) and rule.chooses():
                return rule
        return None

    def on_connect(self, connection: int, listener: str) -> Rule | None:
        """The one that meets a client that connects."""
        if self._paused is not None:
            return self._paused[1]
        for rule in self._rules.values():
            if rule.action.connect is not None and rule.fits_connection(connection, listener) and rule.chooses():
                return rule
        return None
