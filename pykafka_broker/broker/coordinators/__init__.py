"""Run the coordinators on this broker's partitions: groups, transactions, share groups."""
