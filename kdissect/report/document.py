"""The page: data that fits, embedded as JSON in one HTML file that may request nothing."""

import base64
import hashlib
import json
import shutil
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kdissect.text.escape import escaped
from kdissect.text.human import cut

PAGE: Final = Path(__file__).parent / "page"
VENDOR: Final = Path(__file__).parent / "vendor"
LIBRARY: Final = "echarts.min.js"


class Kind(NamedTuple):
    """A kind of page: its HTML in the frame, and its scripts; each uses those before it."""

    html: str
    scripts: tuple[str, ...]


FRAME: Final = "frame.html"
SHARED: Final = ("text.js", "theme.js", "plots.js", "tables.js")
REPORT: Final = Kind(
    "page.html",
    (*SHARED, "charts.js", "heat.js", "network.js", "sequence.js", "findings.js", "renew.js",
     "main.js"),
)  # fmt: skip
CHANGES: Final = Kind("changes.html", (*SHARED, "changes.js"))
INDEX: Final = Kind("index.html", (*SHARED, "index.js"))
KINDS: Final = (REPORT, CHANGES, INDEX)
# Bytes of the data: with the library (1.12 MB) the page stays below 2 MB.
DATA_LIMIT: Final = 750_000
HEAT_LIMIT: Final = 300_000
NAME_LENGTH: Final = 200
SENTENCE_LENGTH: Final = 2_000
LISTS: Final = ("findings", "evidence", "sequences", "bands")
ALONE: Final = "alone"  # in the data of a page with one plot
RENEWED: Final = "renewed"  # in the data of a served page
SPARE: Final = 50_000  # of `DATA_LIMIT`: columns of tables, and the sentences about what was cut
PLAIN: Final = frozenset({int, float, bool, type(None)})  # types without texts
# In a script element only "<" could end the data; the others are for old parsers. The rest of JSON
# is ASCII.
UNSAFE: Final = tuple((one, f"\\u{ord(one):04x}") for one in "<>&")


class Page(NamedTuple):
    """The HTML of a page, UTF-8, around the library, which is copied from its file."""

    before: bytes
    after: bytes

    @property
    def html(self) -> bytes:
        """The whole page."""
        return b"".join([self.before, (VENDOR / LIBRARY).read_bytes(), self.after])

    @property
    def size(self) -> int:
        """Bytes of the whole page."""
        return len(self.before) + (VENDOR / LIBRARY).stat().st_size + len(self.after)

    def write(self, file: IO[bytes]) -> None:
        """Write the whole page without having it in memory."""
        file.write(self.before)
        with (VENDOR / LIBRARY).open("rb") as library:
            shutil.copyfileobj(library, file)
        file.write(self.after)


def page(title: str, content: dict[str, Any], kind: Kind = REPORT) -> Page:
    """A page of this kind about `content`."""
    style = (PAGE / "page.css").read_text(encoding="utf-8")
    scripts = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in kind.scripts)
    script = f'(() => {{\n"use strict";\n{scripts}\n}})();\n'
    values = {
        "title": escape(escaped(cut(title, NAME_LENGTH))),
        "policy": policy(script, style, RENEWED in content),
        "style": style,
        "data": fitting(content),
        "script": script,
    }
    frame, body = ((PAGE / name).read_text(encoding="utf-8") for name in (FRAME, kind.html))
    frame = frame.replace("%%body%%\n", body)
    return Page(*(filled(half, values) for half in frame.split("%%library%%")))


def filled(frame: str, values: dict[str, str]) -> bytes:
    """The text with values for their names; what is inserted is not searched again.

    >>> filled("<b>%%a%%</b>", {"a": "%%b%%", "b": ""})
    b'<b>%%b%%</b>'
    """
    pieces = frame.split("%%")
    return "".join(values[one] if n % 2 else one for n, one in enumerate(pieces)).encode()


def policy(script: str, style: str, is_served: bool = False) -> str:
    """A Content-Security-Policy for the library, this page's own script and style, and no request.

    A served page may ask its server whether there are new rows.
    """
    with (VENDOR / LIBRARY).open("rb") as file:
        library = quoted(hashlib.file_digest(file, "sha256"))
    scripts = f"{library} {_digest(script)}"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ) + ("; connect-src 'self'" if is_served else "")


def fitting(content: dict[str, Any]) -> str:
    """The data as JSON for a script element, with shorter lists where it would be too large."""
    alone = content.get(ALONE)
    content = _Safe().of(content)
    if alone is not None:
        content[ALONE] = alone  # the caller's own option, of any length
    lists = {rows_name(one): Rows(one["rows"]) for one in content["tables"]}
    lists |= {name: Rows(content[name]) for name in LISTS if name in content}
    pieces = {
        name: embedded(value) for name, value in content.items()
        if name not in ("tables", "heat", *LISTS)
    }  # fmt: skip
    if "heat" in content:
        pieces["heat"] = _heat(content["heat"], content["folded"])
    room = DATA_LIMIT - SPARE - sum(len(name) + len(text) for name, text in pieces.items())
    while sum(one.size for one in lists.values()) > room:
        longer = [one for one in lists.values() if one.count > 1]
        if not longer:
            break
        max(longer, key=lambda one: one.size).halve()
    content["folded"] += [
        f"only the first {rows.count} of {rows.whole} {name} are here"
        for name, rows in lists.items()
        if rows.count < rows.whole
    ]
    pieces["folded"] = embedded(content["folded"])
    pieces |= {name: lists[name].text for name in LISTS if name in content}
    pieces["tables"] = "[{}]".format(",".join(
        joined({
            **{name: embedded(value) for name, value in one.items() if name != "rows"},
            "all_rows": str(lists[rows_name(one)].whole), "rows": lists[rows_name(one)].text,
        })
        for one in content["tables"]
    ))  # fmt: skip
    return joined({name: pieces[name] for name in content})


def rows_name(table: dict[str, Any]) -> str:
    """What sentences call the rows of a table."""
    return f"rows of {table['title']}"


class Rows:
    """A list as JSON, written once; it can be halved until it fits.

    >>> rows = Rows([1, 2, 3, 4, 5])
    >>> rows.halve()
    >>> rows.text, rows.size, rows.whole
    ('[1,2]', 5, 5)
    """

    def __init__(self, rows: Sequence[Any]) -> None:
        self.whole = len(rows)
        ends = [len(rows)]
        while ends[-1] > 1:
            ends.append(ends[-1] // 2)
        # The last part is what `halve` takes away.
        self._ends = ends[::-1]
        self._parts = [embedded(rows[begin:end])[1:-1] for begin, end in pairwise([0, *self._ends])]

    @property
    def count(self) -> int:
        """Rows that are left."""
        return self._ends[-1]

    @property
    def size(self) -> int:
        """Length of the text."""
        return sum(map(len, self._parts)) + len(self._parts) + 1

    @property
    def text(self) -> str:
        """The rows that are left, as JSON."""
        return f"[{','.join(self._parts)}]"

    def halve(self) -> None:
        """Leave the first half."""
        del self._ends[-1], self._parts[-1]


def joined(pieces: dict[str, str]) -> str:
    """An object of values that are JSON already.

    >>> joined({"a": "1", "b": "[]"})
    '{"a":1,"b":[]}'
    """
    return "{" + ",".join(f"{embedded(name)}:{text}" for name, text in pieces.items()) + "}"


def embedded(value: Any) -> str:
    r"""JSON that no HTML parser finds a tag in.

    >>> embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for one, written in UNSAFE:
        text = text.replace(one, written)
    return text


def _heat(heat: dict[str, Any], said: list[str]) -> str:
    """The heat maps of most names first in each dimension, as many as fit, as JSON."""
    maps, left = [], HEAT_LIMIT
    for one in map(embedded, heat["maps"]):
        if len(one) <= left:
            left -= len(one)
            maps.append(one)
    dropped = len(heat["maps"]) - len(maps)
    if dropped:
        said.append(f"{dropped} heat maps of single names left out: they would make the page large")
    pieces = {name: embedded(value) for name, value in heat.items() if name != "maps"}
    return joined(pieces | {"maps": f"[{','.join(maps)}]"})


class _Safe:
    """Values with all texts cut, and escaped so that they cannot mislead readers."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}  # names come again and again

    def of(self, value: Any, most: int = NAME_LENGTH) -> Any:
        """The value."""
        if isinstance(value, str):
            return self._text(value, most)
        if isinstance(value, dict):
            return {
                self._text(name, NAME_LENGTH): one if type(one) in PLAIN
                else self.of(one, SENTENCE_LENGTH if name in _SENTENCES else most)
                for name, one in value.items()
            }  # fmt: skip
        if isinstance(value, list | tuple):
            # Cells of heat maps and time bins are many, and no texts.
            return [one if type(one) in PLAIN else self.of(one, most) for one in value]
        return value

    def _text(self, text: str, most: int) -> str:
        found = self._known.get((text, most))
        if found is None:
            found = self._known[text, most] = escaped(cut(text, most))
        return found


_SENTENCES: Final = ("text", "next", "command", "meaning", "folded")


def quoted(digest: "hashlib._Hash") -> str:
    """A digest as policies have it."""
    return f"'{digest.name}-{base64.b64encode(digest.digest()).decode()}'"


def _digest(text: str) -> str:
    return quoted(hashlib.sha256(text.encode()))
