"""The tables' columns, each declared once: a module a table, or a few that belong together."""
