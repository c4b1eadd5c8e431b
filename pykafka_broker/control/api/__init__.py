"""The operations, by subject."""
