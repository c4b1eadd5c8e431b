"""Classes that a configuration may name: `package.module:Class`, in the words of Kafka's Java interfaces.

Rule: each kind has a typed Protocol; its questions, and the meaning of its exceptions, are documented with the
Protocol. `loading` finds, makes and closes objects.
"""
