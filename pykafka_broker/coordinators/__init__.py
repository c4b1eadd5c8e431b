"""Groups, offsets, share partitions and transactions, as sans-IO coordinators.

Rule: a request and `now` go in, `Effects` come out; only `replay` changes hard state, live and at load alike.
"""
