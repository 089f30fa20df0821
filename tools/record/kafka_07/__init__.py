"""Records real clients of Kafka 0.7 against a stand-in for its broker, which is not to be had."""
