"""Records real Kafka traffic: real brokers, real clients, tcpdump, and the ground truth."""
