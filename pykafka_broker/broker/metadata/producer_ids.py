"""The producer ids that a broker hands out, from blocks that the controller gives (KIP-730).

Rule: an id is handed out once in the life of the cluster. The rest of a block is lost when the broker stops. The next
block is asked for when a tenth of the current one is left. Read by `ServerNode` alone, which hands the manager to the
coordinators of transactions: all ids of a broker come from the same block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.peers import LinkError, OnReply
    from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

_TIMEOUT_MS = 30_000
_LOW_PART = 0.1  # of a block: the next one is asked for


class ProducerIdManager:
    """The producer ids of a broker (Kafka: ProducerIdManager).

    Args:
        broker_id: the id of the broker.
        broker_epoch: returns the epoch of the broker's registration.
        ask: brings a request to the controller. A controller in this process answers before `ask` returns.
    """

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], ask: Callable[[Message, OnReply, int], None]
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._block = range(0)  # ids of the current block that are left
        self._ask_below = 0.0  # with fewer ids than that the next block is asked for
        self._next_block: range | None = None
        self._asking = False

    def prepare(self) -> None:
        """Ask for the first block, so the first producer need not come twice."""
        if not self._block and self._next_block is None:
            self._ask_for_block()

    def next_id(self) -> int:
        """Return an unused producer id.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS while there is no block: the client comes again.
        """
        if self._next_block is None and len(self._block) <= self._ask_below:
            self._ask_for_block()
        if not self._block:
            if self._next_block is None:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            self._block, self._next_block = self._next_block, None
            self._ask_below = len(self._block) * _LOW_PART
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    def _ask_for_block(self) -> None:
        if self._asking:
            return
        from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest

        self._asking = True  # a start without producers does not import the message
        self._ask(AllocateProducerIdsRequest(self._broker_id, self._broker_epoch()), self._on_reply, _TIMEOUT_MS)

    def _on_reply(self, reply: Message | LinkError) -> None:
        from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

        self._asking = False
        if not isinstance(reply, AllocateProducerIdsResponse):
            logger.warning("no producer ids: %s", reply)
        elif reply.error_code:
            logger.warning("no producer ids: %s", ErrorCode(reply.error_code).name)
        elif reply.producer_id_len > 0:
            self._next_block = range(reply.producer_id_start, reply.producer_id_start + reply.producer_id_len)
