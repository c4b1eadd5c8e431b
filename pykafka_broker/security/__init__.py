"""Identity, rights and quotas of clients.

Rule: sans-IO. No socket, no clock, no thread: bytes and `now` go in, a verdict comes out. Users, rights, tokens and
quotas are metadata, and change through decisions in `cluster/`. A broker without security imports nothing of this.

`listener_settings` has the settings of one listener; `principal_mapping` the rules for names of clients; `tls/` stores,
contexts and names in certificates; `sasl/` JAAS lines and mechanisms as exchanges of bytes; `acls` the authorizers;
`quotas/` rates and throttle times; `hooks/` classes of Python named in a configuration.
"""
