"""A broker in a ZooKeeper, for tools and consumers of the releases that kept their metadata there.

Rule: the truth is the broker's own metadata. ZooKeeper shows it, and what an old tool writes there is a request, which
becomes one of Kafka's requests and changes the metadata as any other. Nothing of this package is imported unless
`zookeeper.connect` is set; kazoo, its client of ZooKeeper, is imported in `extension.py` and `nodes.py` alone.
"""
