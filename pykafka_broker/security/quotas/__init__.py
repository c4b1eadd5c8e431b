"""How much clients may do, and how long they wait when they have done more.

Rule: sans-IO. Time comes in with each call, what comes out is a number of milliseconds; who is held up by it, and how,
is decided above. Imported when the first quota is there.
"""
