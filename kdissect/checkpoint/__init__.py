"""Dissects splits of captures alone, and merges them to the result of one pass (docs/splits.md)."""
