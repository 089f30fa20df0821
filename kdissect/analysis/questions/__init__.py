"""The analyses, one file each."""
