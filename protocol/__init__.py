"""Inputs of the wire protocol: Kafka's message schemas as facts, and the generator that turns them into `pykafka_broker/protocol`."""
