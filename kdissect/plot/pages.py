"""The plots of reports in notebooks: the same page, with one plot of it, in a frame of the cell.

    plots = kdissect.plot.of("broker.pcapng")      # one pass
    plots.timeline()
    plots.latency(api="Fetch", part="queue")
    kdissect.plot.changes(kdissect.compare("old.pcap", "new.pcap"))

A plot is ECharts' own. `option` of each is merged into its option, as ECharts' `setOption` does
(https://echarts.apache.org/en/option.html), as JSON: ``{"title": {"text": "Monday"}}``.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kdissect.capture.files import Source
from kdissect.errors import InvalidArgument, OutputExists, cannot_write
from kdissect.report.changes import changes_page
from kdissect.report.document import ALONE, page
from kdissect.report.heat import EVERY, PARTS
from kdissect.report.writing import gather, title_of
from kdissect.system.confined import replacing
from kdissect.text.suggestions import known_words

if TYPE_CHECKING:
    from kdissect.api.comparison import Comparison

# Heights in a cell, in CSS pixels.
TIMELINE: Final = 780
LAG: Final = 174  # more, where groups have a lag
MAP: Final = 560
PAGE: Final = 900
DIMENSIONS: Final = ("api", "client", "broker", "topic")
LISTS: Final = ("evidence", "sequences", "tables", "folded")


class Plot:
    """A plot, shown by a notebook; `data` are its numbers, `html` a file that shows it alone."""

    def __init__(self, html: bytes, data: Mapping[str, Any], height: int) -> None:
        self.html = html
        self.data = data
        self.height = height

    def __repr__(self) -> str:
        return f"<plot: {len(self.html)} bytes of HTML>"

    def _repr_html_(self) -> str:
        """A frame without the notebook's origin: nothing in it reaches the notebook."""
        content = escape(self.html.decode(), quote=True)
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{content}" title="kdissect" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the HTML file; refuses to overwrite without `force`."""
        path = Path(path)
        if path.exists() and not force:
            raise OutputExists(f"{path} exists; force=True overwrites it")
        try:
            with replacing(path) as file:
                file.write(self.html)
        except OSError as error:
            raise cannot_write(path, error) from error


class Plots:
    """The plots about captures, datasets or live captures, of one pass over them."""

    def __init__(self, title: str, content: dict[str, Any]) -> None:
        self.title = title
        self._content = content

    def timeline(self, option: Mapping[str, Any] | None = None) -> Plot:
        """Bytes, exchanges, errors, latency percentiles and lag of groups over time."""
        kept = {name: self._content[name] for name in ("time", "bands", "lag")}
        height = TIMELINE + LAG * bool(kept["lag"])
        return self._alone("time", {**self._content, "heat": self._heat([])}, kept, height, option)

    def latency(
        self, *, part: str = "latency", option: Mapping[str, Any] | None = None, **of: str
    ) -> Plot:
        """The heat map of latency, or of a part of it, over time.

        Of all exchanges, or of one of the largest names: ``api="Fetch"``, or `client`, `broker`,
        `topic`. Raises InvalidArgument for others.
        """
        if part not in PARTS:
            raise InvalidArgument(f"no part {part!r}; {known_words(part, list(PARTS))}")
        by, name = dimension_of(of)
        maps = self._content["heat"]["maps"]
        found = [one for one in maps if one["by"] == by and (by == EVERY or one["name"] == name)]
        if not found:
            there = [one["name"] for one in maps if one["by"] == by]
            raise InvalidArgument(f"no map of {by} {name!r}; {known_words(name, there)}")
        cells = found[0]["cells"].get(part, [])
        kept = {**{key: self._content["heat"][key] for key in ("start_ms", "width_ms", "count")},
                "cells": cells}  # fmt: skip
        content = {**self._content, "heat": self._heat(found)}
        return self._alone("latency", content, kept, MAP, option, part=part)

    def network(self, option: Mapping[str, Any] | None = None) -> Plot:
        """The map of groups, clients, brokers and topics; its edges have bytes, errors, latency."""
        names = ("clients_groups", "clients_brokers", "brokers_topics")
        tables = [one for one in self._content["tables"] if one["name"] in names]
        content = {**self._content, "heat": self._heat([])}
        kept = {one["name"]: one["rows"] for one in tables}
        return self._alone("network", content, kept, MAP + 40, option, tables)

    def page(self) -> Plot:
        """The whole report."""
        return Plot(page(self.title, self._content).html, self._content, PAGE)

    def _heat(self, maps: list[Any]) -> dict[str, Any]:
        return {**self._content["heat"], "maps": maps}

    def _alone(
        self, section: str, content: dict[str, Any], data: Mapping[str, Any], height: int,
        option: Mapping[str, Any] | None, tables: Sequence[Any] = (), **chosen: str,
    ) -> Plot:  # fmt: skip
        check_option(option or {})
        content = {**content, **{name: [] for name in LISTS}, "tables": list(tables)}
        # Of findings, only the areas of their times are drawn.
        content["findings"] = [
            {name: one[name] for name in ("id", "severity", "first_time", "last_time")}
            for one in content["findings"]
        ]
        content[ALONE] = {"section": section, "option": option or {}, **chosen}
        return Plot(page(self.title, content).html, data, height)


def of(source: Source | Sequence[Source], **options: Any) -> Plots:
    """The plots about captures, datasets or live captures: one pass.

    `options` are those of `kdissect.report.writing.write_report`: `asks_all`, `pseudonyms`, `jobs`,
    `reading`.
    """
    names = [str(one) for one in (source if isinstance(source, list | tuple) else [source])]
    found = gather(source, **{"title": title_of(names), "files": names, **options})
    return Plots(found.title, found.content)


def changes(found: "Comparison", titles: Sequence[str] = ("before", "after")) -> Plot:
    """The plot of a comparison: each change with its interval."""
    return Plot(changes_page(found, titles), {"rows": found.table.to_pylist()}, PAGE)


def dimension_of(named: Mapping[str, str]) -> tuple[str, str]:
    """Dimension and name of a heat map; all exchanges without any."""
    if not named:
        return EVERY, ""
    if len(named) > 1 or not named.keys() <= set(DIMENSIONS):
        asked = ", ".join(named)
        raise InvalidArgument(f"a heat map is of one of {', '.join(DIMENSIONS)}, not of {asked}")
    ((by, name),) = named.items()
    return by, name


def check_option(option: Mapping[str, Any]) -> None:
    """Raise InvalidArgument for an option that is no JSON."""
    try:
        json.dumps(option, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"option is not JSON: {error}") from error
