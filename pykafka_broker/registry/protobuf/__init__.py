"""Protobuf: `.proto` texts and descriptors, each from the other, and what may change on the wire."""
