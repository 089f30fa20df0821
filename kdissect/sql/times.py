"""Times of tables in SQL."""


def with_zone(column: str) -> str:
    """Select item that gives a time its zone, UTC: files and Arrow tables differ in it."""
    return f'"{column}"::TIMESTAMPTZ AS "{column}"'
