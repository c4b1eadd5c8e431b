"""The quorum that keeps the metadata log (KIP-595)."""
