"""Record batches and message sets. Rule: bytes in, bytes out; nothing here knows what an offset or a time should be.

header: the 61 bytes that the hot path reads and patches. record, builder: what stands in a batch, read and written.
control: markers and the control records of metadata logs. validation: what a broker asks of a producer's records.
conversion: formats v0 and v1, from and to v2, and other codecs. compression, errors: used by the others.
"""
