"""GSSAPI (RFC 4752): Kerberos, for clients that have a ticket for the broker's service.

Rule: the extra `gssapi`, which stands on the system's Kerberos libraries, does the tokens; what is done here is the
order of the exchange. After the context stands no security layer is offered but none, as Kafka has it. The principal
that the ticket proves is who the client is; another name that it wishes for is passed over, as Kafka does.
"""

from __future__ import annotations

import logging
from typing import Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.kerberos_names import KerberosNames, NoName
from pykafka_broker.security.sasl.mechanism import Challenge, Done, Refused
from pykafka_broker.security.sasl.realm import Realm

try:
    import gssapi
    from gssapi.raw.misc import GSSError
except (ImportError, OSError):
    raise ConfigError("GSSAPI needs the Kerberos libraries: pip install gssapi") from None

__all__ = ["GSSAPI", "GSSError", "Gssapi", "GssapiServer", "gssapi", "key_of"]  # whoever logs in has them from here

log = logging.getLogger(__name__)

GSSAPI = "GSSAPI"
_NO_LAYER = 1
_OFFER = bytes([_NO_LAYER, 1, 0, 0])  # with a size that means nothing, as Java sends it
_REFUSAL = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {GSSAPI}"


class GssapiServer:
    """The mechanism on one listener: a service with a key in a keytab. Raises ConfigError."""

    def __init__(self, realm: Realm) -> None:
        options = realm.jaas(GSSAPI).options
        keytab, principal = options.get("keyTab"), options.get("principal")
        if not keytab or not principal:
            raise ConfigError(f"{GSSAPI} of listener {realm.listener}: its login module needs keyTab and principal")
        service, named = realm.settings.get("sasl.kerberos.service.name"), options.get("serviceName")
        if service is None and named is None:
            raise ConfigError(f"sasl.kerberos.service.name of listener {realm.listener} is not set")
        if None not in (service, named) and service != named:
            raise ConfigError(
                f"sasl.kerberos.service.name of listener {realm.listener} is another one than serviceName of its login "
                "module"
            )
        self._listener = realm.listener
        self._credentials = key_of(keytab, principal, realm.listener)
        rules = realm.settings.get("sasl.kerberos.principal.to.local.rules")
        self._names = KerberosNames(rules, principal.rpartition("@")[2])

    def begin(self) -> Gssapi:
        context: Any = gssapi.SecurityContext(creds=self._credentials, usage="accept")
        context.__DEFER_STEP_ERRORS__ = False  # a client hears of its failure from SASL, not in words of Kerberos
        return Gssapi(context, self._names, self._listener)


class Gssapi:
    """One client that logs in."""

    __slots__ = ("_context", "_listener", "_names", "_offered")

    def __init__(self, context: gssapi.SecurityContext, names: KerberosNames, listener: str) -> None:
        self._context = context
        self._names = names
        self._listener = listener
        self._offered = False

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        try:
            return self._step(token)
        except GSSError as error:
            log.info("Listener %s: a Kerberos token is not taken: %s", self._listener, error.min_code)
            raise Refused(_REFUSAL) from None

    def _step(self, token: bytes) -> Challenge | Done:
        context = self._context
        if self._offered:
            return self._chosen(context.unwrap(token).message)
        if not context.complete:
            if not token:
                raise Refused(_REFUSAL)
            answer = context.step(token)
            if answer or not context.complete:
                return Challenge(answer or b"")
        elif token:
            raise Refused(_REFUSAL)
        self._offered = True
        return Challenge(context.wrap(_OFFER, False).message)

    def _chosen(self, choice: bytes) -> Done:
        """The layer, the size of messages, and whom the client wants to be."""
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise Refused(_REFUSAL)
        try:
            name = self._names.name_of(str(self._context.initiator_name))
        except NoName:
            log.info("Listener %s: no rule gives a name to a Kerberos principal", self._listener)
            raise Refused(_REFUSAL) from None
        return Done(b"", f"User:{name}")


def key_of(keytab: str, principal: str, listener: str) -> gssapi.Credentials:
    """What accepts tickets for it. Raises ConfigError."""
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except GSSError as error:
        raise ConfigError(
            f"{GSSAPI} of listener {listener}: there is no key of {principal} in {keytab}: {error.min_code}"
        ) from None
