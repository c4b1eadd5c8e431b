"""Groups of the classic protocol and of the consumer protocol (KIP-848), and the offsets of all groups.

Rule: the state in `__consumer_offsets` is hard state and changes by `replay` alone; members and timers of classic
groups are soft. Share groups and streams groups build on `group`, too.
"""
