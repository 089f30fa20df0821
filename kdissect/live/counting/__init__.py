"""Rows of the last seconds, counted: for a screen, for lines, and for Prometheus."""
