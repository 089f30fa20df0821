"""Packet sources of live captures: interfaces, pipes and growing files."""
