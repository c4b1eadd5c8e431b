"""Which authorizer a broker has. Rule: the names of Kafka's mean ours, a Python class is given ours to ask, and another
class of Java's is refused: to go on without it would let everybody in.
"""

from __future__ import annotations

from pykafka_broker.cluster.acl_index import index_of
from pykafka_broker.cluster.authorizer import Authorizer
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.effects import STANDARD_AUTHORIZERS
from pykafka_broker.security.acls.standard import StandardAuthorizer, super_users_of
from pykafka_broker.security.hooks.authorizer import HookedAuthorizer


def authorizer_of(config: BrokerConfig, image: MetadataImage) -> Authorizer:
    """The one that `authorizer.class.name` names; it follows the ACLs of `image`. Raises ConfigError."""
    standard = StandardAuthorizer(
        index_of(image),
        super_users_of(config.static.get("super.users", "")),
        config.static.get("allow.everyone.if.no.acl.found", "").lower() == "true",
    )
    if config.authorizer_class_name in STANDARD_AUTHORIZERS:
        return standard
    return HookedAuthorizer(config, standard)
