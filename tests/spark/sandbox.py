"""A directory with a changed dataset or live capture, and canaries beside it."""

import io
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, Final

from kdissect.cli.program import run
from kdissect.errors import KdissectError

# A FIFO that is opened without care is never open: nothing here takes a tenth of it.
LONGEST_S: Final = 120
# Allowed names: files that a name could lead to, of kinds that kdissect reads and removes.
CANARIES: Final = (
    "canary.txt", "manifest.json", "commit.json", "owner.json", "topics.json", "balance.json",
    "exchanges/date=2026-11-21/tap=x/canary.parquet", "000001.state", "states/0/000001.state",
    "rollups/1/client_id/canary.parquet", "run-000002-0123456789ab/commit.json",
    "run-000002-0123456789ab/exchanges/canary.parquet", "exchanges.spool", "exchanges.parquet",
    "000001-20261122T060000Z/exchanges.parquet", "000001-20261122T060000Z/balance.json",
)  # fmt: skip


class Sandbox:
    """`inside` is the directory under attack, `outside` holds the canaries."""

    def __init__(self, place: Path) -> None:
        self.inside = place / "inside"
        self.outside = place / "outside"
        self.captures: list[Path] = []
        for name in CANARIES:
            path = self.outside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"canary " + name.encode())
        self.before = tree(self.outside)

    def check(self) -> None:
        """Nothing outside was made, changed, moved or removed."""
        assert tree(self.outside) == self.before
        assert {path.name for path in self.outside.parent.iterdir()} <= {
            "inside", "outside"
        }  # fmt: skip

    def call(self, function: Callable[..., Any], *values: Any, **named: Any) -> str:
        """Error of a library function, "" when it succeeds: one clear error at most."""
        with in_time():
            try:
                function(*values, **named)
            except KdissectError as error:
                said = str(error) or type(error).__name__
            else:
                said = ""
        self.check()
        return said

    def run(self, *words: Any) -> str:
        """Stderr of a command that ends with an exit code and at most one line."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with in_time(), redirect_stdout(out), redirect_stderr(err):
            code = run([str(word) for word in words])
        said = err.getvalue()
        assert code in (0, 1, 2), said
        assert "Traceback" not in said
        if code:
            assert said.startswith("kdissect: "), said
            assert said.count("\n") == 1, said
        self.check()
        return said if code else ""


def tree(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Files below a directory, with modes, times and contents."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_mtime_ns, content)
    return found


@contextmanager
def in_time() -> Iterator[None]:
    """Raise TimeoutError in long-running code."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
