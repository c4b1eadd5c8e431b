"""Looking into a data directory while no broker runs on it: dump, verify, repair.

Rule: dump and verify change nothing. Their results are rows (plain dicts), printed as text or as JSON lines.
"""
