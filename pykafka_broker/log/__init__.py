"""Partition logs in Kafka's on-disk format: segments, indexes, producer state, recovery.

Rule: it knows batches and offsets, not requests; its only door to disk is `FileSystem`, and time comes in as `now`.
"""
