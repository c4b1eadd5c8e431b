"""A client of any Kafka, for the tools.

Rule: it uses the project's own codec and the broker's own links. The tools need requests that no client library of
Python has (quorum, features, share and streams groups, reassignments), and one way to connect, to log in and to report
an error is enough. It is asyncio, and no part of it is imported by a broker.
"""
