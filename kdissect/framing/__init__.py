"""Byte streams to size-delimited frames, and the search for a frame after loss."""
