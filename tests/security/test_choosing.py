"""Which authorizer a broker has by its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.cluster.authorizer import AllowAll, Authorizer
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.effects import STANDARD_AUTHORIZERS, refusals
from pykafka_broker.config.values import ConfigError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.security.acls import HookedAuthorizer, StandardAuthorizer, authorizer_of
from tests.broker.api.real_broker import RealBroker

QUESTION = ("10.0.0.1", AclOperation.READ, AclResourceType.TOPIC)


class Friendly:
    """An authorizer as a user may write one: bob may use each name with a set prefix, else the ACLs decide."""

    acls: Authorizer
    closed = False

    def close(self) -> None:
        self.closed = True

    def configure(self, settings: Mapping[str, str]) -> None:
        self.settings = settings

    def use_acls(self, standard: Authorizer) -> None:
        self.acls = standard

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        mine = principal == "User:bob" and name.startswith(self.settings["friendly.prefix"])
        return mine or self.acls.allows(principal, host, operation, resource, name)

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return self.acls.allows_some(principal, host, operation, resource)

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        return self.acls.rule(principal, host, operation, resource, name)


FRIENDLY = f"{__name__}:Friendly"


def chosen(**settings: str) -> Authorizer:
    return authorizer_of(BrokerConfig({k.replace("_", "."): v for k, v in settings.items()}), MetadataImage())


@pytest.mark.parametrize("name", STANDARD_AUTHORIZERS)
def test_the_names_of_kafka_mean_the_standard_one(name: str) -> None:
    one = chosen(authorizer_class_name=name, super_users="User:a;User:b", allow_everyone_if_no_acl_found="false")
    assert isinstance(one, StandardAuthorizer)
    assert [one.allows(f"User:{user}", *QUESTION, "t") for user in "abc"] == [True, True, False]


def test_everyone_may_do_what_no_acl_is_about_if_told_so() -> None:
    one = chosen(authorizer_class_name=STANDARD_AUTHORIZERS[0], allow_everyone_if_no_acl_found="TRUE")
    assert one.allows("User:c", *QUESTION, "t")


def test_a_python_class_is_given_the_settings_and_the_acls_to_ask() -> None:
    one = chosen(authorizer_class_name=FRIENDLY, friendly_prefix="bob-", super_users="User:a")
    assert [one.allows(user, *QUESTION, "bob-t") for user in ("User:bob", "User:a", "User:c")] == [True, True, False]


def test_a_python_class_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Invalid value nowhere:A for configuration authorizer\.class\.name"):
        RealBroker(tmp_path, **{"authorizer.class.name": "nowhere:A"})


def test_another_class_of_java_is_refused() -> None:
    (line,) = refusals(BrokerConfig({"authorizer.class.name": "com.acme.Ranger"}))
    assert line.startswith("Invalid value com.acme.Ranger for configuration authorizer.class.name: it names a Java")
    for name in (*STANDARD_AUTHORIZERS, FRIENDLY):
        assert not refusals(BrokerConfig({"authorizer.class.name": name}))


def test_the_settings_of_the_authorizer_are_known() -> None:
    assert not BrokerConfig({"super.users": "User:a", "allow.everyone.if.no.acl.found": "true"}).unknown


def test_a_broker_without_one_lets_everybody_in(tmp_path: Path) -> None:
    node = RealBroker(tmp_path)
    assert type(node.broker.services.authorizer) is AllowAll


def context(principal: str) -> RequestContext:
    connection = ConnectionContext(1, "PLAINTEXT", ("h", 1), ("h", 2), principal)
    return RequestContext(ApiKey.FETCH, 12, 1, None, connection, 0)


def test_a_broker_asks_the_one_that_is_configured(tmp_path: Path) -> None:
    node = RealBroker(tmp_path, **{"authorizer.class.name": FRIENDLY, "friendly.prefix": "x"})
    assert node.broker.services.allows(context("User:bob"), AclOperation.READ, AclResourceType.TOPIC, "xy")
    assert not node.broker.services.allows(context("User:bob"), AclOperation.READ, AclResourceType.TOPIC, "y")
    authorizer = node.broker.services.authorizer
    assert authorizer is node.broker.metadata.controller.authorizer
    assert isinstance(authorizer, HookedAuthorizer)
    node.stop()
    assert isinstance(authorizer.hook, Friendly)
    assert authorizer.hook.closed
