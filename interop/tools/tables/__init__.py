"""One module for each tool: `STEPS`, and `prepare(bootstrap)`, `SETTINGS`, `BROKERS` where it needs them. Where
`STOPPED` names one of several brokers, it is stopped before the first step, and `settle(bootstrap)` waits until the
others know.
"""
