"""This node as a client with a ticket: GSSAPI (RFC 4752) from the client's side.

Rule: the peer's service is `sasl.kerberos.service.name` on the host that the link goes to, in the words of the node's
address; whether that is looked up for another name is a matter of krb5.conf. The ticket comes by the key of this node
in a keytab, or from a cache that somebody else fills (`useTicketCache`); getting it may take a word with the KDC, so
the steps wait. No security layer is chosen, as Kafka has it.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule
from pykafka_broker.security.sasl.kerberos import GSSAPI, GSSError, gssapi, key_of
from pykafka_broker.security.sasl.login import LoginFailed, NewLogin

_NO_LAYER = 1
_CHOICE = bytes([_NO_LAYER, 0, 0, 0])  # no layer, and so no size of its messages
_OFFER_BYTES = 4


def kerberos_login(settings: ListenerSettings, module: LoginModule) -> NewLogin:
    """Of this node at a listener. Raises ConfigError."""
    options = module.options
    service = settings.get("sasl.kerberos.service.name", GSSAPI) or options.get("serviceName")
    if not service:
        raise ConfigError(f"sasl.kerberos.service.name of listener {settings.name} is not set")
    keytab, principal = options.get("keyTab"), options.get("principal")
    store: dict[bytes | str, bytes | str] | None = None
    if options.get("useTicketCache") == "true" and not keytab:
        store = {"ccache": options["ticketCache"]} if "ticketCache" in options else None
    elif keytab and principal:
        key_of(keytab, principal, settings.name)
        # Tickets are this process's own, and are got anew by the key before they end.
        store = {"client_keytab": keytab, "ccache": f"MEMORY:{settings.name}"}
    else:
        raise ConfigError(
            f"{GSSAPI} of listener {settings.name}: its login module needs keyTab and principal, or useTicketCache=true"
        )
    return lambda wall, host: _Ticket(f"{service}@{host}", principal, store)


class _Ticket:
    waits = True

    def __init__(self, service: str, principal: str | None, store: dict[bytes | str, bytes | str] | None) -> None:
        self._service = service
        self._principal = principal
        self._store = store
        self._context: Any = None
        self._chosen = False

    def step(self, challenge: bytes) -> bytes | None:
        try:
            return self._step(challenge)
        except GSSError as error:
            raise LoginFailed(f"Kerberos has no way to {self._service}: {_words(error)}") from None

    def _step(self, challenge: bytes) -> bytes | None:
        if self._chosen:
            return None
        if self._context is None:
            self._context = self._new_context()
        context = self._context
        if not context.complete:
            return context.step(challenge or None) or b""
        offer = context.unwrap(challenge).message
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_LAYER:
            raise LoginFailed(f"{self._service} wants a security layer")
        self._chosen = True
        message: bytes = context.wrap(_CHOICE + (self._principal or "").encode(), False).message
        return message

    def _new_context(self) -> Any:
        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
        own = gssapi.Credentials(name=name, usage="initiate", store=self._store)
        peer = gssapi.Name(self._service, gssapi.NameType.hostbased_service)
        context: Any = gssapi.SecurityContext(name=peer, creds=own, usage="initiate")
        context.__DEFER_STEP_ERRORS__ = False
        return context


def _words(error: Any) -> str:
    """What Kerberos says of it: names and addresses."""
    return " ".join(error.gen_message().split())
