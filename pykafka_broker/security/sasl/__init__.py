"""SASL: who a client is, by an exchange of tokens (RFC 4422).

Rule: sans-IO. A mechanism is given tokens and answers with tokens; `SaslExchange` says what a connection may send when.
The bytes on the socket, and the time of a refusal, are the server's business. No password and no token is ever part of
a message, of an error or of a `repr`.
"""
