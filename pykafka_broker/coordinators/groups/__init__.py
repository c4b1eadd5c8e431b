"""Groups of the classic protocol and of the consumer protocol (KIP-848), and the offsets of all groups.

Rule: what is in `__consumer_offsets` is hard state and changes by `replay` alone; members and timers of classic groups
are soft. `epoch_group` is shared with the share and the streams groups.
"""
