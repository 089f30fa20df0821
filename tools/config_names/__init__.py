"""Names and types of the configs that Kafka documents, asked of its ConfigDef classes."""
