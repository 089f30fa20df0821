"""Connections at the boundary of a split: what is held back, kept and encoded until the merge."""
