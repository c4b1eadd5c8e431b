"""Groups, offsets, share partitions and transactions, as sans-IO coordinators.

Rule: a request and `now` go in, a `CoordinatorResult` comes out; only `replay` changes hard state, live and at a load
alike.
"""
