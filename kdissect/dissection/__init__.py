"""The stages from packets to rows, joined for one pass over a capture."""
