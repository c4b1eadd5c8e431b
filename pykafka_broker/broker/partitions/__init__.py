"""Keep the partitions that this broker has: each with its log, its followers and what is committed."""
