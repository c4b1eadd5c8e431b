"""`create.topic.policy.class.name` and `alter.config.policy.class.name` as classes of Python.

Rule: a policy allows everything unless it raises `PolicyViolation`; the client is answered POLICY_VIOLATION with its
text. It may raise `ApiError` for another of Kafka's errors. Any other exception is a defect of the policy: nothing is
changed, the client gets UNKNOWN_SERVER_ERROR with the class and the error, and the log the whole traceback. Policies
run on the loop that serves all clients, so they must not wait.

A module of its own for a start without policies, which does not import it; and policies import PolicyViolation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pykafka_broker.cluster.controller import ConfigAlteration, TopicCreation
from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, close_hook, load_hook

CREATE_TOPIC = "create.topic.policy.class.name"
ALTER_CONFIG = "alter.config.policy.class.name"

W = TypeVar("W")


class PolicyViolation(ApiError):
    """A refusal by a policy, with the reason."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


class CreateTopicPolicy(Protocol):
    """A policy for new topics, created by a client or by the broker for a client."""

    def validate(self, creation: TopicCreation, /) -> None:
        """Raise PolicyViolation for a forbidden topic."""


class AlterConfigPolicy(Protocol):
    """A policy for changes of configs, including configs of a new topic."""

    def validate(self, alteration: ConfigAlteration, /) -> None:
        """Raise PolicyViolation for a forbidden change."""


class HookedPolicies:
    """The policies of a configuration. Raises ConfigError."""

    def __init__(self, config: BrokerConfig) -> None:
        create, alter = config.create_topic_policy_class_name, config.alter_config_policy_class_name
        self._create: CreateTopicPolicy | None = None
        if create:
            self._create = load_hook(CREATE_TOPIC, create, CreateTopicPolicy, config.static)
        self._alter: AlterConfigPolicy | None = None
        if alter:
            self._alter = load_hook(ALTER_CONFIG, alter, AlterConfigPolicy, config.static)

    def check_topic(self, creation: TopicCreation) -> None:
        if self._create is not None:
            _ask(self._create, self._create.validate, creation)

    def check_configs(self, alteration: ConfigAlteration) -> None:
        if self._alter is not None:
            _ask(self._alter, self._alter.validate, alteration)

    def close(self) -> None:
        """Close the policies at the end of the broker."""
        for policy in (self._create, self._alter):
            if policy is not None:
                close_hook(policy)


def _ask(policy: object, validate: Callable[[W], None], wish: W) -> None:
    try:
        call_hook(policy, validate, wish, own=(ApiError,))
    except HookFailed as failed:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(failed)) from None
