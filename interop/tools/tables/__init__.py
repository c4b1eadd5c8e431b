"""One module for each tool: `STEPS`, and `prepare(bootstrap)`, `SETTINGS`, `BROKERS` where it needs them."""
