"""Replays a capture slowly into a live directory until killed; reports flushed rows.

python -m tests.live.slow_replay CAPTURE DIRECTORY LOG SECONDS
"""

import os
import sys
import time
from pathlib import Path

from kdissect.capture.packet import Packet
from kdissect.live.files.rotation import RotatedTables
from kdissect.live.watcher import Watcher
from kdissect.pipeline import Options
from kdissect.tables.spool import Spool
from tests.live.replays import SlicedWire, by_packets

PACKETS = 20
EVERY_S = 3
FLUSH_S = 0.5


class SlowWire(SlicedWire):
    """Waits before it gives packets."""

    def __init__(self, source: Path, seconds: float) -> None:
        super().__init__(source, PACKETS)
        self.seconds = seconds

    def read(self, wait_s: float) -> list[Packet] | None:
        time.sleep(self.seconds)
        return super().read(wait_s)


class ToldSpool(Spool):
    """Tells how many rows it has on disk: a line ``run rotation table rows``."""

    log = -1

    def write(self, *, is_synced: bool = False) -> None:
        super().write(is_synced=is_synced)
        rotation = self.path.parent
        line = f"{rotation.parent.name} {rotation.name} {self.path.stem} {self.rows}\n"
        os.write(self.log, line.encode())


def main(capture: str, directory: str, log: str, seconds: str) -> None:
    ToldSpool.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    import kdissect.live.files.spools

    kdissect.live.files.spools.Spool = ToldSpool  # type: ignore[misc]
    tables = ["connections", "exchanges", "partitions", "problems"]
    files = RotatedTables(Path(directory), tables=tables, every_s=EVERY_S, flush_s=FLUSH_S)
    with SlowWire(Path(capture), float(seconds)) as packet_source:
        watcher = Watcher(packet_source, [files], Options(), by_packets)
        os.write(ToldSpool.log, b"begins\n")
        watcher.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
