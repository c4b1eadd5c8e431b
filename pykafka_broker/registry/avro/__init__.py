"""Avro: types, their canonical text, and which data can be read with which of them."""
