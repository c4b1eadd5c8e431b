"""A client of any Kafka, for the tools.

Rule: it speaks with the project's own codec and over the broker's own links, since the tools need requests that no
client library of Python has (quorum, features, share and streams groups, reassignments), and one way to connect, to log
in and to tell an error is enough. It is asyncio, and nothing of it is imported by a broker.
"""
