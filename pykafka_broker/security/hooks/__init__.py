"""What a configuration may name a class for: `package.module:Class`, in the words of Kafka's Java interfaces.

Rule: a class of its own for each, as a typed Protocol; what is asked of it and what its exceptions mean stands beside
the Protocol. `loading` finds, makes and closes them.
"""
