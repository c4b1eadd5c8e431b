"""Looking into a data directory while no broker runs on it: dump, verify, repair.

Rule: dump and verify change nothing. What they say comes as rows (plain dicts), which are printed as text or as JSON
lines.
"""
