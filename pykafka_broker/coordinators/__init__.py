"""Groups, offsets and transactions, as sans-IO machines.

Rule: a request and `now` go in, `Effects` come out; only `replay` changes hard state, live and at load alike.
"""
