"""Share groups (KIP-932).

`membership` and its neighbours hold who is in a group and which partitions it reads, in `__consumer_offsets`; `state`
holds how far each share partition is, in `__share_group_state`; `share_partition` hands records out and takes
acknowledgements, and its state in between is soft.
"""
