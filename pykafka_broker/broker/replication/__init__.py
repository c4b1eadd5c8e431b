"""Replication between brokers: what followers do, and what a leader of several replicas does beside serving them.

Nothing here is imported by a node that is alone.
"""
