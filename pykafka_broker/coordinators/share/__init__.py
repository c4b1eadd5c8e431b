"""Share groups (KIP-932).

`share_group` has the members of a group and the partitions of each member, in `__consumer_offsets`; `state` has how far
each share partition is, in `__share_group_state`; `share_partition` hands records out and takes acknowledgements, and
its state in between is soft. `sessions` has the partitions that a member reads over its connection.
"""
