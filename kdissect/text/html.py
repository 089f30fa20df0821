"""Rows as an HTML table for notebooks; text from the wire is escaped twice over."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from kdissect.text.escape import escaped
from kdissect.text.human import TEXT_LENGTH, cut


def cell(value: Any) -> str:
    r"""A value as text of HTML, without characters that move or hide text.

    >>> cell("<b>\x1b"), cell(None)
    ('&lt;b&gt;\\e', '')
    """
    return "" if value is None else escape(escaped(cut(str(value), TEXT_LENGTH)))


def html_table(names: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """An HTML table; nothing in it is loaded or run."""
    head = "".join(f"<th>{cell(name)}</th>" for name in names)
    lines = ("".join(f"<td>{cell(value)}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<caption>{cell(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
