"""TLS: stores of keys and certificates, the contexts made of them, and the names of clients in certificates.

Rule: a mistake in a store is a `ConfigError` that names the setting, and never shows a password or a key.
"""
