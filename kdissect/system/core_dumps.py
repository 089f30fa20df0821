"""No core dumps of processes that have secrets in memory."""

import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4  # <linux/prctl.h>


def prevent_core_dumps() -> None:
    """Let this process, and those that it starts, leave no core; on Linux also none for a handler.

    A handler of cores (systemd-coredump) gets them whatever the limit is, unless the process is not
    dumpable. Other processes of the same user cannot read its memory either, then.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
