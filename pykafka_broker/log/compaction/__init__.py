"""Log compaction: of each key the last value stays (Kafka docs, "Log Compaction").

Rule: cleaning reads what is complete and synced and writes new files beside it; only when these are on disk do they
take the place of the old ones, and a crash at any moment leaves either the old segments or the new ones.
"""
