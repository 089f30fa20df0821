"""Benchmark of causes: incidents staged with real Kafka, and the first finding of each."""
