"""GSSAPI (RFC 4752): Kerberos, for clients with a ticket for the broker's service, and for this node as a client.

Rule: the extra `gssapi`, which uses the system's Kerberos libraries, makes the tokens; the order of the exchange is
kept here. When the context is complete, "no security layer" is the only offer and the only choice, as in Kafka. The
client's name is the principal that the ticket proves; another name that it wishes for is ignored, as in Kafka.

As a client: the peer's service is `sasl.kerberos.service.name` on the host of the link, in the words of the node's
address; krb5.conf says whether another name is looked up for it. The ticket comes by the key of this node in a keytab,
or from a cache that another program fills (`useTicketCache`); getting it may need the KDC, so the steps may wait.

A module of its own, since the extra is imported with it.
"""

from __future__ import annotations

import logging
from typing import Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.principal_mapping import KerberosNames, NoName
from pykafka_broker.security.sasl.jaas import LoginModule, login_module
from pykafka_broker.security.sasl.login import Login, LoginFailed, LoginSteps, NewLogin
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused, NewMechanism, Realm

try:
    import gssapi
    from gssapi.raw.misc import GSSError
except (ImportError, OSError):
    raise ConfigError("GSSAPI needs the Kerberos libraries: pip install gssapi") from None

log = logging.getLogger(__name__)

GSSAPI = "GSSAPI"
_NO_LAYER = 1
_OFFER = bytes([_NO_LAYER, 1, 0, 0])  # with a meaningless size, as Java sends
_REFUSAL = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {GSSAPI}"


def gssapi_mechanism(realm: Realm) -> NewMechanism:
    """Return the maker of logins on a listener: a service with a key in a keytab. Raises ConfigError."""
    settings, listener = realm.settings, realm.settings.name
    options = login_module(settings, GSSAPI).options
    keytab, principal = options.get("keyTab"), options.get("principal")
    if not keytab or not principal:
        raise ConfigError(f"{GSSAPI} of listener {listener}: its login module needs keyTab and principal")
    service, named = settings.get("sasl.kerberos.service.name"), options.get("serviceName")
    if service is None and named is None:
        raise ConfigError(f"sasl.kerberos.service.name of listener {listener} is not set")
    if None not in (service, named) and service != named:
        raise ConfigError(
            f"sasl.kerberos.service.name of listener {listener} is another one than serviceName of its login module"
        )
    credentials = key_of(settings, keytab, principal)
    names = KerberosNames(settings.get("sasl.kerberos.principal.to.local.rules"), principal.rpartition("@")[2])

    def begin() -> Gssapi:
        context: Any = gssapi.SecurityContext(creds=credentials, usage="accept")
        context.__DEFER_STEP_ERRORS__ = False  # a client hears of its failure from SASL, not in words of Kerberos
        return Gssapi(context, names, listener)

    return begin


class Gssapi:
    """A client's login."""

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
            raise LoginRefused(_REFUSAL) from None

    def _step(self, token: bytes) -> Challenge | Done:
        context = self._context
        if self._offered:
            return self._chosen(context.unwrap(token).message)
        if not context.complete:
            if not token:
                raise LoginRefused(_REFUSAL)
            answer = context.step(token)
            if answer or not context.complete:
                return Challenge(answer or b"")
        elif token:
            raise LoginRefused(_REFUSAL)
        self._offered = True
        return Challenge(context.wrap(_OFFER, False).message)

    def _chosen(self, choice: bytes) -> Done:
        """Read the client's choice: layer, size of messages, and wished name."""
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise LoginRefused(_REFUSAL)
        try:
            name = self._names.name_of(str(self._context.initiator_name))
        except NoName:
            log.info("Listener %s: no rule gives a name to a Kerberos principal", self._listener)
            raise LoginRefused(_REFUSAL) from None
        return Done(b"", f"User:{name}")


def key_of(settings: ListenerSettings, keytab: str, principal: str) -> gssapi.Credentials:
    """Return credentials to accept tickets for a principal. Raises ConfigError."""
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
    except GSSError as error:
        raise ConfigError(
            f"{GSSAPI}{settings.of_listener}: there is no key of {principal} in {keytab}: {error.min_code}"
        ) from None


_CHOICE = bytes([_NO_LAYER, 0, 0, 0])  # no layer, and so no size of its messages
_OFFER_BYTES = 4
Store = dict[bytes | str, bytes | str]


def kerberos_login(settings: ListenerSettings, module: LoginModule) -> NewLogin:
    """Return the node's login at a listener. Raises ConfigError."""
    options = module.options
    service = settings.get("sasl.kerberos.service.name", GSSAPI) or options.get("serviceName")
    if not service:
        raise ConfigError(f"sasl.kerberos.service.name{settings.of_listener} is not set")
    keytab, principal = options.get("keyTab"), options.get("principal")
    store: Store | None = None
    if options.get("useTicketCache") == "true" and not keytab:
        store = {"ccache": options["ticketCache"]} if "ticketCache" in options else None
    elif keytab and principal:
        key_of(settings, keytab, principal)
        # Tickets are this process's own, and are got anew by the key before they end.
        store = {"client_keytab": keytab, "ccache": f"MEMORY:{settings.name}"}
    else:
        raise ConfigError(
            f"{GSSAPI}{settings.of_listener}: its login module needs keyTab and principal, or useTicketCache=true"
        )
    return lambda wall, host: Login(_shown_ticket(f"{service}@{host}", principal, store), waits=True)


def _shown_ticket(service: str, principal: str | None, store: Store | None) -> LoginSteps:
    try:
        context, challenge = _new_context(service, principal, store), b""
        while not context.complete:
            challenge = yield context.step(challenge or None) or b""
        offer = context.unwrap(challenge).message
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
            raise LoginFailed(f"{service} wants a security layer")
        yield context.wrap(_CHOICE + (principal or "").encode(), False).message
    except GSSError as error:
        raise LoginFailed(f"Kerberos has no way to {service}: {_words(error)}") from None


def _new_context(service: str, principal: str | None, store: Store | None) -> Any:
    name = gssapi.Name(principal, gssapi.NameType.kerberos_principal) if principal else None
    own = gssapi.Credentials(name=name, usage="initiate", store=store)
    peer = gssapi.Name(service, gssapi.NameType.hostbased_service)
    context: Any = gssapi.SecurityContext(name=peer, creds=own, usage="initiate")
    context.__DEFER_STEP_ERRORS__ = False
    return context


def _words(error: Any) -> str:
    """Return Kerberos' own words: names and addresses."""
    return " ".join(error.gen_message().split())
