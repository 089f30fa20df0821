"""Packet sources: where packets come from while they come: interfaces, pipes, files that grow."""
