"""The page: data that fits, embedded as JSON in one HTML file that may request nothing."""

import base64
import hashlib
import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

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
# In a script element only "<" could end the data; the others are for old parsers.
UNSAFE: Final = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def page(title: str, content: dict[str, Any], kind: Kind = REPORT) -> bytes:
    """The HTML of a page, UTF-8."""
    style = (PAGE / "page.css").read_text(encoding="utf-8")
    library = (VENDOR / LIBRARY).read_text(encoding="utf-8")
    scripts = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in kind.scripts)
    script = f'(() => {{\n"use strict";\n{scripts}\n}})();\n'
    values = {
        "title": escape(escaped(cut(title, NAME_LENGTH))),
        "policy": policy([library, script], style, RENEWED in content),
        "style": style,
        "library": library,
        "data": fitting(content),
        "script": script,
    }
    frame, body = ((PAGE / name).read_text(encoding="utf-8") for name in (FRAME, kind.html))
    pieces = frame.replace("%%body%%\n", body).split("%%")
    # Names of values are between texts: what is inserted is not searched again.
    return "".join(values[one] if n % 2 else one for n, one in enumerate(pieces)).encode()


def policy(scripts: list[str], style: str, is_served: bool = False) -> str:
    """A Content-Security-Policy for this page's own scripts and style, and no request.

    A served page may ask its server whether there are new rows.
    """
    allowed = " ".join(_digest(one) for one in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ) + ("; connect-src 'self'" if is_served else "")


def fitting(content: dict[str, Any]) -> str:
    """The data as JSON for a script element, with shorter lists where it would be too large."""
    alone = content.get(ALONE)
    content = _Safe().of(content)
    if alone is not None:
        content[ALONE] = alone  # the caller's own option, of any length
    if "heat" in content:
        content["heat"]["maps"] = list(_fitting_maps(content["heat"]["maps"], content["folded"]))
    lists = {f"rows of {one['title']}": one["rows"] for one in content["tables"]}
    lists |= {name: content[name] for name in LISTS if name in content}
    # Each list is written once, and halved until all fit.
    written = {name: embedded(rows) for name, rows in lists.items()}
    whole = {name: len(rows) for name, rows in lists.items()}
    for one in content["tables"]:
        one["all_rows"] = len(one["rows"])
    rest = {name: value for name, value in content.items() if name not in ("tables", *LISTS)}
    room = DATA_LIMIT - SPARE - len(embedded(rest))
    while sum(map(len, written.values())) > room:
        longer = [name for name, rows in lists.items() if len(rows) > 1]
        if not longer:
            break
        largest = max(longer, key=lambda name: len(written[name]))
        del lists[largest][len(lists[largest]) // 2 :]
        written[largest] = embedded(lists[largest])
    rest["folded"] += [
        f"only the first {len(rows)} of {whole[name]} {name} are here"
        for name, rows in lists.items()
        if len(rows) < whole[name]
    ]
    pieces = {name: embedded(value) for name, value in rest.items()}
    pieces |= {name: written[name] for name in LISTS if name in content}
    pieces["tables"] = "[{}]".format(",".join(
        joined({
            name: written[f"rows of {one['title']}"] if name == "rows" else embedded(value)
            for name, value in one.items()
        })
        for one in content["tables"]
    ))  # fmt: skip
    return joined({name: pieces[name] for name in content})


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
    return text.translate(UNSAFE)


def _fitting_maps(maps: list[dict[str, Any]], said: list[str]) -> Iterator[dict[str, Any]]:
    """The heat maps of most names first in each dimension, as many as fit."""
    left, dropped = HEAT_LIMIT, 0
    for one in maps:
        size = len(embedded(one))
        if size > left:
            dropped += 1
            continue
        left -= size
        yield one
    if dropped:
        said.append(f"{dropped} heat maps of single names left out: they would make the page large")


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


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
