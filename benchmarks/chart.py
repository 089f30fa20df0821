"""Lines over two logarithmic axes, as an SVG of a few kilobytes; no library draws it."""

import math
from typing import NamedTuple

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 30, 44
COLOURS = ("#c2410c", "#1d4ed8", "#4d7c0f")
TEXT = 'font-family="sans-serif" font-size="11" fill="#333"'


class Panel(NamedTuple):
    """One pair of axes; points are (x, y), both above 0; the name of a line is its legend."""

    title: str
    across: str
    up: str
    lines: dict[str, list[tuple[float, float]]]


def drawn(panels: list[Panel]) -> str:
    """The SVG with the panels side by side."""
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * WIDTH} 0)">')
        parts += _panel(panel)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def decades(values: list[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    return low, max(math.ceil(math.log10(max(values)) - 1e-9), low + 1)


def _panel(panel: Panel) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    across, up = decades([x for x, _ in points]), decades([y for _, y in points])
    parts = [_text(WIDTH / 2, 16, panel.title, "middle")]
    for power in range(across[0], across[1] + 1):
        x = _scaled(10.0**power, across, LEFT, WIDTH - RIGHT)
        parts.append(_line((x, TOP), (x, HEIGHT - BOTTOM), "#ddd"))
        parts.append(_text(x, HEIGHT - BOTTOM + 14, _number(10.0**power), "middle"))
    for power in range(up[0], up[1] + 1):
        y = _scaled(10.0**power, up, HEIGHT - BOTTOM, TOP)
        parts.append(_line((LEFT, y), (WIDTH - RIGHT, y), "#ddd"))
        parts.append(_text(LEFT - 6, y + 4, _number(10.0**power), "end"))
    parts.append(_text(WIDTH / 2, HEIGHT - 10, panel.across, "middle"))
    parts.append(_text(6, TOP - 12, panel.up, "start"))
    for colour, (name, line) in zip(COLOURS, panel.lines.items(), strict=False):
        if not line:
            continue
        places = [
            (
                _scaled(x, across, LEFT, WIDTH - RIGHT),
                _scaled(y, up, HEIGHT - BOTTOM, TOP),
            )
            for x, y in line
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(_text(places[0][0] + 6, places[0][1] - 6, name, "start", colour))
    return parts


def _scaled(value: float, powers: tuple[int, int], start: float, stop: float) -> float:
    share = (math.log10(value) - powers[0]) / (powers[1] - powers[0])
    return start + share * (stop - start)


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 1 else f"{value:g}"


def _line(start: tuple[float, float], stop: tuple[float, float], colour: str) -> str:
    places = f'x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{stop[0]:.1f}" y2="{stop[1]:.1f}"'
    return f'<line {places} stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    style = TEXT.replace("#333", colour)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{text}</text>'
