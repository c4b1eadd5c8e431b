"""The comparison of kafka-storage with Kafka's own, invocation by invocation.

Rule: `scripts.py` is the table, `recorded.json` what Kafka's own tool answered (`python -m interop.storage_tool` makes
it, in a minute), and `running.py` runs one script with either tool and describes the result in the same words.
"""
