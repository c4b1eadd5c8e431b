"""Streams groups (KIP-1071): topologies, the internal topics they need, and the assignment of tasks."""
