"""`client.quota.callback.class` as a class of Python, in the place of Java's `ClientQuotaCallback`.

Rule: the class is asked for a client's quota at each request, so that a changed answer takes effect at once. The class
hears the quotas that are set in the metadata, and may ignore them. Counting, throttle times and muting are the
broker's. A hook that fails sets no limit, and the log says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.cluster.quotas import IP
from pykafka_broker.config import BrokerConfig
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, close_hook, load_hook
from pykafka_broker.security.quotas.client_quotas import (
    FETCHED_BYTES,
    MUTATIONS,
    PRODUCED_BYTES,
    REQUEST_TIME,
    QuotaLimit,
)

KEY = "client.quota.callback.class"
# Java's names of the kinds.
TYPES = {
    PRODUCED_BYTES: "PRODUCE",
    FETCHED_BYTES: "FETCH",
    REQUEST_TIME: "REQUEST",
    MUTATIONS: "CONTROLLER_MUTATION",
}


class QuotaCallback(Protocol):
    """The methods of the class. quota_type: PRODUCE, FETCH, REQUEST or CONTROLLER_MUTATION."""

    def quota_metric_tags(self, quota_type: str, principal: str, client_id: str) -> Mapping[str, str] | None:
        """Return tags as the name of the clients counted together; no tags for an unlimited client.

        principal: "User:alice".
        """

    def quota_limit(self, quota_type: str, metric_tags: Mapping[str, str]) -> float | None:
        """Return bytes a second, percent of a thread, or partitions a second; None for no limit.

        As with Kafka, 0 throttles each request by a window and refuses topic changes after the first, while a fetch
        gets one batch and a produce all that it sends: no throttle time is long enough for bytes.
        """

    def update_quota(self, quota_type: str, entity: Mapping[str, str | None], limit: float) -> None:
        """Take note of a quota set in the metadata.

        entity: the names for "user", "client-id" or both; None stands for the default.
        """

    def remove_quota(self, quota_type: str, entity: Mapping[str, str | None]) -> None:
        """Take note of a quota removed from the metadata."""


class HookedQuotas:
    """Quotas by a class of Python."""

    def __init__(self, config: BrokerConfig) -> None:
        """Make the hook. Raises ConfigError."""
        name = config.static[KEY]
        self.hook: QuotaCallback = load_hook(KEY, name, QuotaCallback, config.static)
        self._known: dict[tuple[str, QuotaEntity], float] = {}

    def __bool__(self) -> bool:
        return True  # the hook alone knows whether there are quotas

    def find(self, kind: str, principal: str, client_id: str) -> QuotaLimit | None:
        """Return the client's quota, or None for an unlimited client."""
        try:
            return call_hook(self.hook, self._asked, TYPES[kind], principal, client_id)
        except HookFailed:
            return None

    def _asked(self, quota_type: str, principal: str, client_id: str) -> QuotaLimit | None:
        tags = self.hook.quota_metric_tags(quota_type, principal, client_id)
        if not tags:
            return None
        quota = self.hook.quota_limit(quota_type, tags)
        return QuotaLimit(float(quota), tuple(sorted(tags.items()))) if quota is not None and quota >= 0 else None

    def follow(self, client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Tell the hook all changes of quotas in the metadata."""
        now = {
            (TYPES[kind], entity): quota
            for entity, quotas in client_quotas.items()
            for kind, quota in quotas.items()
            if kind in TYPES and all(part != IP for part, _ in entity)
        }
        before, self._known = self._known, now
        for (quota_type, entity), quota in now.items():
            if before.get((quota_type, entity)) != quota:
                self._tell("update_quota", quota_type, dict(entity), quota)
        for quota_type, entity in before.keys() - now.keys():
            self._tell("remove_quota", quota_type, dict(entity))

    def _tell(self, method: str, *arguments: object) -> None:
        try:
            call_hook(self.hook, getattr(self.hook, method), *arguments)
        except HookFailed:
            return  # the log has it

    def close(self) -> None:
        close_hook(self.hook)
