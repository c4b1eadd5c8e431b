"""Which quota a client has: eight levels, of which the first that is set counts.

Rule: a level says whose use is counted together. One with user and client id counts each pair; one of users all clients
of a user; one of client ids all users of a client id.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from pykafka_broker.cluster.image import QuotaEntity
from pykafka_broker.cluster.quotas import CLIENT_ID, IP, USER

_ABSENT = ""  # in the place of a part that a level does not have; nobody has that name, which stands for none
_Level = tuple[str | None, str | None]


class Limit(NamedTuple):
    """A quota that holds for a client.

    key: the name of its counter, as (user, client id); one that the level does not have is empty.
    """

    quota: float
    key: Hashable


class Levels:
    """The quotas of one kind, of users and client ids. An empty name is a client's without one."""

    __slots__ = ("_quotas", "_with_both", "_with_client", "_with_user")

    def __init__(self, quotas: Mapping[_Level, float]) -> None:
        self._quotas = quotas
        self._with_both = any(_ABSENT not in level for level in quotas)
        self._with_user = any(level[1] == _ABSENT for level in quotas)
        self._with_client = any(level[0] == _ABSENT for level in quotas)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The quota of this client; None where it may do what it likes."""
        get = self._quotas.get
        for name in (user, None):
            if self._with_both:
                quota = get((name, client_id)) if client_id else None
                quota = get((name, None)) if quota is None else quota
                if quota is not None:
                    return Limit(quota, (user, client_id))
            if self._with_user:
                quota = get((name, _ABSENT))
                if quota is not None:
                    return Limit(quota, (user, _ABSENT))
        if self._with_client:
            quota = get((_ABSENT, client_id)) if client_id else None
            quota = get((_ABSENT, None)) if quota is None else quota
            if quota is not None:
                return Limit(quota, (_ABSENT, client_id))
        return None


def levels_of(client_quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str, Levels]:
    """The quotas of clients in the metadata, by kind; one of which there is none is not there."""
    found: dict[str, dict[_Level, float]] = {}
    for entity, quotas in client_quotas.items():
        names = dict(entity)
        if IP not in names:
            level = (names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT))
            for kind, quota in quotas.items():
                found.setdefault(kind, {})[level] = quota
    return {kind: Levels(quotas) for kind, quotas in found.items()}


def quotas_of_addresses(client_quotas: Mapping[QuotaEntity, Mapping[str, float]], kind: str) -> dict[str | None, float]:
    """The quotas of one kind by address; that of None is for all the others."""
    return {
        dict(entity)[IP]: quotas[kind]
        for entity, quotas in client_quotas.items()
        if kind in quotas and any(part == IP for part, _ in entity)
    }


__all__ = ["Levels", "Limit", "levels_of", "quotas_of_addresses"]
