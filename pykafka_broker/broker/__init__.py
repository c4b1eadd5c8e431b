"""Requests: a router, a handler module per API, requests that wait, and the hosts of the coordinators.

Rule: a handler resolves, calls what stands below and answers; it has no socket and no clock, `now` comes in. `routes`
says which module serves which versions of an API, and the answer to ApiVersions is made from it.
"""
