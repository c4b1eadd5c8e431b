"""The ACLs that should exist after a sequence's own requests. Rule: a broker that has not heard of an ACL yet answers
as if there were none, so a step that changes ACLs waits until the broker describes the expected ones.
"""

from __future__ import annotations

from typing import Any

from interop.raw import RawClient
from pykafka_broker.protocol.messages.describe_acls_request import DescribeAclsRequest

Acl = tuple[int, str, int, str, str, int, int]
ANY = 1


class Granted:
    """The ACLs that one run has created and deleted on one broker."""

    def __init__(self) -> None:
        self._there: dict[Acl, bool] = {}  # False for a deleted one

    def learn_created(self, request: Any, answer: Any) -> None:
        for acl, result in zip(request.creations, answer.results, strict=True):
            if result.error_code == 0:
                self._there[_acl(acl, acl.resource_type, acl.resource_name, acl.resource_pattern_type)] = True

    def learn_deleted(self, answer: Any) -> None:
        for result in answer.filter_results:
            for acl in result.matching_acls:
                self._there[_acl(acl, acl.resource_type, acl.resource_name, acl.pattern_type)] = False

    def is_known(self, client: RawClient) -> bool:
        """Return whether the broker describes all created ACLs and no deleted one."""
        answer = client.call(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY), 3)
        told = {
            _acl(acl, of.resource_type, of.resource_name, of.pattern_type) for of in answer.resources for acl in of.acls
        }
        return all((acl in told) is there for acl, there in self._there.items())


def _acl(acl: Any, kind: int, name: str, pattern_type: int) -> Acl:
    return kind, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type
