"""Inputs of the wire protocol: Kafka's message schemas as facts, and the generator of `pykafka_broker/protocol`."""
