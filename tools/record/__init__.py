"""Records real Kafka traffic: real brokers, real clients, tcpdump, and what is known to be true."""
