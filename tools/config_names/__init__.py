"""Names and types of the configs that Kafka documents, read from its ConfigDef classes."""
