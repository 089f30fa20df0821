"""Exchanges → spans of OpenTelemetry, into a file or to a collector (docs/export.md)."""
