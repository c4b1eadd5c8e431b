"""What can be wrong with record bytes. Rule: when the bytes, not the caller, are at fault, one of these is raised."""

from __future__ import annotations


class CorruptBatch(ValueError):
    """The bytes are not what they claim to be: a bad length, magic, checksum, count, varint or compressed block."""


class TruncatedBatch(CorruptBatch):
    """The bytes end before the batch does, as at the end of a fetch or of a torn log; what comes before it is sound."""


class GrowsTooLarge(CorruptBatch):
    """Its records are more bytes than whoever reads them has room for."""


class UnsupportedCompression(ValueError):
    """The message format can't carry this codec: zstd needs format v2 (KIP-110). UNSUPPORTED_COMPRESSION_TYPE."""


class InvalidRecord(CorruptBatch):
    """The batch is as it was sent, but the records in it break the format's rules. Brokers say INVALID_RECORD."""
