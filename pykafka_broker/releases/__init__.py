"""Releases of Kafka as their clients saw them, for a broker that shall pass for one of them."""
