"""What kafka-storage says and does, invocation by invocation.

Rule: `scripts.py` is the table, `recorded.json` what Kafka's own tool answered (`python -m interop.storage_tool` makes
it, in a minute), and `running.py` does one script with either tool and tells what came of it in the same words.
"""
