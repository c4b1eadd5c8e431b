"""Metadata: topics, configs, features, quotas and brokers, and the controller that decides about changes.

Rule: sans-IO. Functions read the `MetadataImage` and return Kafka's own metadata records with a reply; only the replay
of records changes an image (KIP-631).
"""
