"""TLS: stores of keys and certificates, the contexts made of them, and the names that certificates give to clients.

Rule: what is wrong with a store is told as a `ConfigError` that names the setting, and never shows a password or a key.
"""
