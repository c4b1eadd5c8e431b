"""An authorizer of somebody else's: what it says counts, and what it can't say is no."""

from __future__ import annotations

import logging

import pytest

from pykafka_broker.cluster.authorizer import AllowAll, Authorizer, Operation, Resource
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import ConfigError
from pykafka_broker.security.hooks.authorizer import HookedAuthorizer

QUESTION = ("User:a", "h", Operation.READ, Resource.TOPIC)


class Failing(Authorizer):
    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        raise KeyError(name)

    def allows_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        raise KeyError(principal)

    def rule(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str:
        raise KeyError(host)


class Odd(AllowAll, Authorizer):
    closed = False

    def close(self) -> None:
        self.closed = True


class NoAuthorizer:
    pass


def hooked(kind: type) -> HookedAuthorizer:
    return HookedAuthorizer(BrokerConfig({"authorizer.class.name": f"{__name__}:{kind.__name__}"}), AllowAll())


def test_what_it_says_counts() -> None:
    one = hooked(Odd)
    assert (one.allows(*QUESTION, "t"), one.allows_some(*QUESTION)) == (True, True)
    assert one.rule(*QUESTION, "t") == "SuperUser"


def test_one_that_fails_has_said_no_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    one = hooked(Failing)
    with caplog.at_level(logging.ERROR):
        assert (one.allows(*QUESTION, "t"), one.allows_some(*QUESTION)) == (False, False)
        assert one.rule(*QUESTION, "t") == f"{__name__}:Failing"
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{__name__}:Failing has failed: KeyError: '{what}'" for what in ("t", "User:a", "h")]


def test_a_class_without_its_methods_is_refused() -> None:
    with pytest.raises(ConfigError, match="a Authorizer must have the method allows"):
        hooked(NoAuthorizer)


def test_it_is_told_that_the_broker_ends() -> None:
    one = hooked(Odd)
    one.close()
    assert isinstance(one.hook, Odd)
    assert one.hook.closed
