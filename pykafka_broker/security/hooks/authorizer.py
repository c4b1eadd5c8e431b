"""`authorizer.class.name` as a class of Python.

Rule: it has the methods of `Authorizer`, the answer of each handler's question. If it has a method `use_acls` it is
given the standard authorizer by it, which goes by the ACLs in the metadata, and may ask that one. It is not asked about
the control API. A hook that fails has said no, and the log says why.
"""

from __future__ import annotations

from pykafka_broker.cluster.authorizer import INSIDE, Authorizer, Operation, Resource
from pykafka_broker.config import BrokerConfig
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, close_hook, load_hook, name_of

KEY = "authorizer.class.name"


class HookedAuthorizer:
    """Asks a hook."""

    def __init__(self, config: BrokerConfig, standard: Authorizer) -> None:
        """Raises ConfigError."""
        self.hook: Authorizer = load_hook(KEY, config.authorizer_class_name, Authorizer, config.static)
        use_acls = getattr(self.hook, "use_acls", None)
        if callable(use_acls):
            use_acls(standard)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if principal == INSIDE:
            return True
        try:
            return principal == INSIDE or bool(
                call_hook(self.hook, self.hook.allows, principal, host, operation, resource, name)
            )
        except HookFailed:
            return False

    def allows_some(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        if principal == INSIDE:
            return True
        try:
            return principal == INSIDE or bool(
                call_hook(self.hook, self.hook.allows_some, principal, host, operation, resource)
            )
        except HookFailed:
            return False

    def rule(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str:
        try:
            return str(call_hook(self.hook, self.hook.rule, principal, host, operation, resource, name))
        except HookFailed:
            return name_of(self.hook)

    def close(self) -> None:
        close_hook(self.hook)
