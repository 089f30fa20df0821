"""Files below a directory, JSON from other programs, and optional packages."""
