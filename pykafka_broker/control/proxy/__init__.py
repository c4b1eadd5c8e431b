"""A proxy in front of another broker: the same log and the same faults.

Rule: to the server it is a broker that has its answers from elsewhere (`forwarding.py`). Whatever address an answer
names is one of the proxy's own (`addresses.py`), so that clients stay with it.
"""
