"""Keep the partitions of this broker: each with its log, its followers and its high watermark."""
