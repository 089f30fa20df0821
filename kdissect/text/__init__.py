"""Human-readable text: numbers, columns, and escapes of text from the wire."""
