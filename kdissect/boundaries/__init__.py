"""Connections at the boundary of a split: held-back segments, kept state, and its encoding."""
