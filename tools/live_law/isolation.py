"""A network namespace with nothing but a loopback, on one processor.

There are no other packets there, and two sockets see them in one order: a packet to the loopback is
handed to both by the processor that sends it. It ends with its process.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

ISOLATED = "KDISSECT_ISOLATED"
COMMAND_TIMEOUT_SECONDS = 20
# Where there is the loopback alone, some clients resolve no address (AI_ADDRCONFIG).
COMMANDS = (
    "link set lo up",
    "link add beside type veth peer name nobody",
    "address add 192.0.2.1/24 dev beside",
    "address add 2001:db8::1/64 dev beside nodad",
    "link set beside up",
    "link set nobody up",
)


def is_isolated() -> bool:
    """Return whether this process was started by `isolated`."""
    return bool(os.environ.get(ISOLATED))


def isolated(arguments: Sequence[str]) -> list[str]:
    """The command that runs Python with `arguments` on its own; wants the right to make one."""
    return ["unshare", "--net", "env", f"{ISOLATED}=1", sys.executable, *arguments]


def settle_in() -> None:
    """Take the loopback and one processor; all that is started from now on shares them."""
    for command in COMMANDS:
        subprocess.run(["ip", *command.split()], check=True, timeout=COMMAND_TIMEOUT_SECONDS)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
