"""Expired delegation tokens leave the metadata.

Rule: every `delegation.token.expiry.check.interval.ms`; when a token expires is a matter of the wall clock. Where the
disk refuses the records the tokens stay until the next time: they have expired all the same.
"""

from __future__ import annotations

import logging

from pykafka_broker.broker.node import Node
from pykafka_broker.cluster.delegation_tokens import expired_tokens
from pykafka_broker.errors import ApiError

logger = logging.getLogger(__name__)


class TokenSweep:
    """On the node that leads the metadata, where it has a secret key for tokens."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = node.clock.now + node.config.delegation_token_expiry_check_interval_ms

    def next_deadline(self) -> int | None:
        return self._next if self._node.image.delegation_tokens else None

    def on_deadline(self, now: int) -> None:
        node = self._node
        self._next = now + node.config.delegation_token_expiry_check_interval_ms
        try:
            node.led_metadata.commit(expired_tokens(node.image, node.clock.wall))
        except ApiError as error:
            logger.error("Could not remove expired delegation tokens: %s", error)
