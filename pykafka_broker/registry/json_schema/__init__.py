"""JSON Schema: references, and whether what was valid under one schema is valid under another."""
