"""A program for each family of clients: told a scenario, it ends with 0, 1 or 77 (interop/README.md)."""
