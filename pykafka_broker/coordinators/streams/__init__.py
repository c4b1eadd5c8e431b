"""Streams groups (KIP-1071): topologies with internal topics, and the assignment of tasks."""
