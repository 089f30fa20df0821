"""Draws the picture of docs/top.md: ``python -m tests.screen.picture``."""

import asyncio
import math
import re
from dataclasses import replace
from pathlib import Path

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.app import Top
from kdissect.screen.view_state import Capture
from tests.screen.snapshots import BALANCE, NOW_NS, SNAPSHOT, STANDING, S, focused

PATH = Path(__file__).parents[2] / "docs" / "top.svg"
SIZE = (112, 22)
REFRESHES = 60
FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"


def moving(number: int, focus: Focus) -> Snapshot:
    """The snapshot after so many seconds of a broker that has ups and downs."""
    wave = math.sin(number / 5) + math.sin(number / 1.3) / 2 + math.sin(number * 1.9) / 3
    whole = SNAPSHOT.whole._replace(
        rate=11_000 + 2500 * wave, p99_ns=round(4e7 + 1.5e7 * math.cos(number / 7) + 8e6 * wave)
    )
    status = STANDING._replace(
        now_ns=NOW_NS + number * S, cpu_seconds=0.14 * number, balance=replace(BALANCE)
    )
    return focused(SNAPSHOT, focus)._replace(status=status, whole=whole)


async def drawn() -> str:
    numbers = iter(range(1000))
    capture = Capture(lambda focus: moving(next(numbers), focus), "eth0: TCP ports 9092, 9093")
    app = Top(capture, interval_s=1.0)
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(REFRESHES):
            app.view_state.refresh()
        await pilot.press("down", "down")
        await pilot.pause()
        return app.export_screenshot(title="kdissect top")


def main() -> None:
    svg = asyncio.run(drawn())
    # Rich's fonts would be fetched from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    svg = re.sub(r"font-family: Fira Code, monospace", f"font-family: {FONT}", svg)
    svg = re.sub(r"\s*<!--.*?-->", "", svg)
    # Names of this run only.
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    PATH.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
