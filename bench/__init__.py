"""Side-by-side benchmarks: our broker, Apache Kafka and franz-go's kfake take turns in one run."""
