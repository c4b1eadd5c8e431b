"""Real clients, tools and connectors against a running broker: ours, or the Apache Kafka that says what is right."""
