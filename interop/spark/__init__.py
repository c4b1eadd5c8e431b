"""Spark's `kafka` source and sink against the broker."""
