"""Fixtures for tests against a broker."""
