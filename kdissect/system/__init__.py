"""Files below a directory, JSON that others wrote, and optional packages."""
