"""Paths of a capture through kdissect: each command, and live capture."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from kdissect.capture.pcap import PcapScanner
from kdissect.cli.program import ANSWERED, run
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from tests.live.listening import Given, Kept

Way = Callable[[Path], None]


def command(*words: str) -> Way:
    """A command of the program, in this process."""

    def go(capture: Path) -> None:
        out = io.TextIOWrapper(io.BytesIO())
        with redirect_stdout(out), redirect_stderr(io.StringIO()) as said:
            code = run([*words, str(capture)])
        assert code == ANSWERED, said.getvalue()

    return go


def table(name: str) -> Way:
    """A single table, without the work for others."""
    return command("table", name, "--format", "jsonl")


def live(capture: Path) -> None:
    """All tables, of packets that come by the hundred."""
    packets = PcapScanner().feed(capture.read_bytes())
    parts = [packets[at : at + 100] for at in range(0, len(packets), 100)]
    Watcher(Given(*parts), [Kept()], Options()).run()


WAYS: dict[str, Way] = {
    "summary": command("summary"),
    "show": command("show", "--payload"),
    "show as JSON": command("show", "--format", "jsonl", "--payload"),
    "bodies": table("bodies"),
    "exchanges": table("exchanges"),
    "records": table("records"),
    "connections": table("connections"),
    "live": live,
}
