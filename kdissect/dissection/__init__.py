"""The stages from packets to rows, synchronized for one pass over a capture."""
