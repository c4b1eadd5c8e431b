"""Transactions (KIP-98, KIP-360, KIP-890): a sans-IO coordinator over `__transaction_state`."""
