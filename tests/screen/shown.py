"""Shows snapshots that never change, for tests: ``python -m tests.screen.shown usual``."""

import sys

from kdissect.live.counting.snapshot import Focus, Snapshot
from kdissect.screen.app import Top
from kdissect.screen.view_state import Capture
from tests.screen.snapshots import NOTHING, SNAPSHOT, TROUBLED, focused, hostile

# So that nothing changes during a test.
NEVER_S = 3600.0
SNAPSHOTS = {
    "usual": SNAPSHOT,
    "troubled": TROUBLED,
    "hostile": hostile(),
    "nothing": NOTHING,
}


def main(name: str) -> None:
    snapshot = SNAPSHOTS[name]

    def source(focus: Focus) -> Snapshot:
        return focused(snapshot, focus)

    Top(Capture(source, "eth0, lo: tcp port 9092 or 9093"), interval_s=NEVER_S).run()


if __name__ == "__main__":
    main(sys.argv[1])
