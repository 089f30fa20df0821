"""Text for people: numbers, columns, and escapes of what came from the wire."""
