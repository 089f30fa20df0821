"""`kdissect live` under hostile peers: started, scraped for its metrics, and ended."""

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Self

from prometheus_client.parser import text_string_to_metric_families
from pyarrow import ArrowException, parquet

from tests.cli.test_hostile_text import harmful_in
from tools.siege.checks import OTHERS, TRACES
from tools.siege.escapes import Escape
from tools.siege.processes import PROGRAM, environment_of

MARKER = "siege-marker"
MIB = 1 << 20
# Generous: the machine may be busy with other work; a page is made in milliseconds.
PAGE_TIMEOUT_S = 10.0
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 120.0
PIPE_TIMEOUT_S = 120.0
LOOK_S = 0.05
PAGE_SIZE = 16 * MIB
# Its output: a line every five seconds, and warnings.
PRINTED = 4 * MIB


class Broken(Exception):
    """The program has ended, or does not respond."""

    def __init__(self, escape: Escape) -> None:
        super().__init__(escape.reason)
        self.escape = escape


class Live:
    """One process of `kdissect live`; with `is_pipe` it reads the input of `feed`."""

    def __init__(
        self,
        words: Sequence[str],
        scratch: Path,
        is_pipe: bool,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.output = scratch / "live"
        self.log = scratch / "live.log"
        self.port = free_port()
        metrics = ["--metrics", f"127.0.0.1:{self.port}"]
        self.command = [*program, "live", *words, "-o", str(self.output), *metrics]
        self.stdin = subprocess.PIPE if is_pipe else subprocess.DEVNULL
        self.peak = 0

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=self.stdin, stdout=log, stderr=log, env=environment_of({}),
                umask=0o022,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()

    @property
    def pipe(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def feed(self, data: bytes) -> None:
        """Write into the pipe; it must be read."""
        descriptor = self.pipe.fileno()
        os.set_blocking(descriptor, False)
        give_up = time.monotonic() + PIPE_TIMEOUT_S
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                self.look()
                if time.monotonic() > give_up:
                    raise Broken(Escape("does not read", "its pipe stays full")) from None
                time.sleep(LOOK_S)
            except BrokenPipeError:
                raise Broken(Escape("ended", self.said())) from None

    def look(self) -> None:
        """Return whether it lives, and its memory use so far."""
        if (code := self.process.poll()) is not None:
            raise Broken(Escape("ended", f"with {code}: {self.said()}"))
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak = max(self.peak, int(line.split()[1]) << 10)

    def await_page(self) -> None:
        """Wait until it answers for the first time."""
        give_up = time.monotonic() + START_TIMEOUT_S
        while True:
            self.look()
            try:
                self.asked_page()
                return
            except OSError:
                if time.monotonic() > give_up:
                    raise Broken(Escape("metrics", "no answer after its start")) from None
                time.sleep(LOOK_S)

    def page(self) -> str:
        """The metrics; it may refuse while others hold its places, but not for long."""
        give_up = time.monotonic() + PAGE_TIMEOUT_S
        while True:
            try:
                return self.asked_page()
            except ConnectionError:
                self.look()
                if time.monotonic() > give_up:
                    raise
                time.sleep(LOOK_S)

    def asked_page(self) -> str:
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PAGE_TIMEOUT_S)
        try:
            asking.request("GET", "/metrics")
            return asking.getresponse().read(PAGE_SIZE).decode()
        finally:
            asking.close()

    def markers_counted(self) -> int:
        """Count the marker's exchanges in the metrics, and check the page."""
        self.look()
        try:
            page = self.page()
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            self.look()
            raise Broken(Escape("metrics", f"{type(error).__name__}: {error}")) from error
        try:
            samples = [one for family in text_string_to_metric_families(page)
                       for one in family.samples]  # fmt: skip
        except ValueError as error:
            raise Broken(Escape("metrics", f"no page: {error}")) from error
        return int(sum(
            one.value for one in samples
            if one.name == "kdissect_exchanges_total" and one.labels.get("client") == MARKER
            and one.labels.get("outcome") == "answered"
        ))  # fmt: skip

    def end(self) -> None:
        """SIGTERM; it must end well."""
        self.look()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Broken(Escape("SIGTERM", f"runs {END_TIMEOUT_S:.0f} s after it")) from None
        if code:
            raise Broken(Escape("SIGTERM", f"ended with {code}: {self.said()}"))

    def said(self) -> str:
        return self.log.read_bytes()[-2_000:].decode(errors="replace")

    def printed(self) -> Iterator[Escape]:
        """Violations in its output."""
        data = self.log.read_bytes()
        if any(trace in data for trace in TRACES):
            yield Escape("exception", self.said())
        if len(data) > PRINTED:
            yield Escape("output", f"{len(data)} bytes")
        if harmful := harmful_in(data.decode(errors="surrogateescape"), "\n"):
            yield Escape("harmful text", repr(sorted(harmful)))

    def files(self, counted: int, has_payload: bool) -> Iterator[Escape]:
        """Violations in its files: unreadable ones, or missing exchanges of the marker."""
        seen: list[int] = []
        for path in sorted(self.output.rglob("*.parquet")):
            if any(part.startswith(".") for part in path.relative_to(self.output).parts):
                continue
            if has_payload and path.stat().st_mode & OTHERS:
                yield Escape("readable", f"{path.name} has mode {path.stat().st_mode & 0o777:o}")
            try:
                table = parquet.ParquetFile(path).read()
            except (ArrowException, OSError) as error:
                yield Escape("not readable", f"{path.name}: {error}")
                continue
            if path.stem == "exchanges":
                seen += [
                    row["correlation_id"]
                    for row in table.select(["client_id", "correlation_id", "outcome"]).to_pylist()
                    if row["client_id"] == MARKER and row["outcome"] == "answered"
                ]
        if len(seen) != len(set(seen)) or len(seen) < counted:
            yield Escape("rows", f"{len(seen)} rows of the marker, {counted} in the metrics")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
