"""Errors of record bytes. Rule: when the bytes, not the caller, are at fault, one of these is raised."""

from __future__ import annotations


class CorruptBatch(ValueError):
    """A batch with a wrong length, magic, checksum, count, varint or compressed block."""


class TruncatedBatch(CorruptBatch):
    """A batch cut short, as at the end of a fetch or of a torn log; everything before the batch is sound."""


class GrowsTooLarge(CorruptBatch):
    """A batch with more bytes of records than the reader has room for."""


class UnsupportedCompression(ValueError):
    """A codec which the message format can't carry: zstd needs format v2 (KIP-110). UNSUPPORTED_COMPRESSION_TYPE."""


class InvalidRecord(CorruptBatch):
    """A batch as sent, with records breaking the format's rules. Brokers say INVALID_RECORD."""
