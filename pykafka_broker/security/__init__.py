"""Who a client is, what it may do, and how much of it.

Rule: sans-IO. No socket, no clock, no thread: bytes and `now` go in, a verdict comes out. What is remembered of users,
rights, tokens and quotas is metadata, and changes through decisions in `cluster/`; nothing here is imported by a broker
that has no use for it.

`listener_settings` is what holds on one listener; `tls/` stores, contexts and names of certificates; `sasl/` JAAS lines
and mechanisms as exchanges of bytes; `acls/` the standard authorizer; `quotas/` rates and throttle times; `hooks/` what
classes that a configuration names have to be like.
"""
