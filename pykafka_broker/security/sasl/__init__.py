"""SASL: who a client is, by an exchange of tokens (RFC 4422).

Rule: sans-IO. A mechanism is given tokens and answers with tokens; `Exchange` says what a connection may send when;
what goes over the socket, and when a refusal leaves, is the server's business. No password and no token is ever part of
a message, of an error or of a `repr`.
"""
