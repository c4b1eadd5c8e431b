"""Kafka's wire protocol and its stored records: generated messages, and the small runtime that they stand on.

Rule: it imports the standard library only and knows no policy; bytes that are no message are a `DecodeError`, values
that a version can't carry an `EncodeError`. All but `runtime`, `specs` and `enums` is generated from the
schemas.
"""
