"""Which module answers which API, and from which version to which.

Rule: an API that is not here is not served, and the answer to ApiVersions is made from this table alone. A module is
imported at the first request for it, so that a start costs only what it uses. Versions are those of the merged schemas
unless a route narrows them.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.protocol.api_keys import ApiKey


class Route(NamedTuple):
    """`module` below `pykafka_broker.broker.api`, which declares its handler with `@handles`."""

    module: str
    min_version: int | None = None
    max_version: int | None = None


ROUTES: dict[ApiKey, Route] = {
    ApiKey.PRODUCE: Route("produce"),
    ApiKey.FETCH: Route("fetch"),
    ApiKey.LIST_OFFSETS: Route("list_offsets"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route("offset_for_leader_epoch"),
    ApiKey.DELETE_RECORDS: Route("delete_records"),
}
