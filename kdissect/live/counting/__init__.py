"""Counting of recent rows: for the screen, for text lines, and for Prometheus."""
