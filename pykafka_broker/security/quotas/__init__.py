"""How much clients may do, and how long they wait after doing more.

Rule: sans-IO. Time comes in with each call, a number of milliseconds comes out; the layer above decides which client
waits, and how. Imported when the first quota is set.
"""
