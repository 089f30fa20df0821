"""A benchmark of causes: incidents staged with real Kafka, and what the page of each says first."""
