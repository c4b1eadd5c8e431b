"""Schema facts in, Python modules out. Rule: what is emitted depends on `protocol/schemas` and nothing else."""
