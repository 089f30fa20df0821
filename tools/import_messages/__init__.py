"""Prints the schema files of kdissect from Kafka's JSON message definitions."""
