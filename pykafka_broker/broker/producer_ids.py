"""Producer ids of a broker whose controller is another node: blocks that it is given, one at a time (KIP-730).

Rule: an id is handed out once in the life of the cluster; what is left of a block is lost with the broker. The next
block is asked for while there is still some of this one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

_TIMEOUT_MS = 30_000
_ASK_AT = 0.1  # of a block is left


class ProducerIdBlocks:
    """`broker_epoch` is that of the registration at the moment."""

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], ask: Callable[[Message, OnReply, int], None]
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._ids = iter(range(0))
        self._left = 0
        self._ask_below = 0.0
        self._next: range | None = None
        self._asking = False

    def prepare(self) -> None:
        """Ask for the first block, so that the first producer need not come twice."""
        if not self._left and self._next is None:
            self._ask_for_more()

    def next_id(self) -> int:
        """Raises COORDINATOR_LOAD_IN_PROGRESS while there is none: the client comes again."""
        if not self._left and self._next is not None:
            self._begin(self._next)
        if self._next is None and self._left <= self._ask_below:
            self._ask_for_more()
        if not self._left:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._left -= 1
        return next(self._ids)

    def _begin(self, block: range) -> None:
        self._next = None
        self._ids, self._left = iter(block), len(block)
        self._ask_below = self._left * _ASK_AT

    def _ask_for_more(self) -> None:
        if self._asking:
            return
        self._asking = True
        request = AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())
        self._ask(request, self._given, _TIMEOUT_MS)

    def _given(self, reply: Message | LinkError) -> None:
        self._asking = False
        if isinstance(reply, LinkError):
            logger.warning("no producer ids: %s", reply)
            return
        assert isinstance(reply, AllocateProducerIdsResponse)
        if reply.error_code:
            logger.warning("no producer ids: %s", ErrorCode(reply.error_code).name)
        elif reply.producer_id_len > 0:
            self._next = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
