"""Expressions of pcap-filter(7), compiled to classic BPF by libpcap, or by tcpdump.

Used for ``--filter`` only: the port filter does not need them.
"""

import re
import shutil
import subprocess
from typing import Final

from kdissect.errors import CaptureError
from kdissect.sources.bpf_programs import Instruction, Program
from kdissect.sources.interfaces import ETHERNET
from kdissect.system.extras import install_command

# libpcap's own numbers (DLT_) and names of link types.
DLT_ETHERNET: Final = 1
DLT_RAW: Final = 12
NO_COMPILER: Final = (
    "--filter is compiled by libpcap, and there is none: install libpcap (Debian, Ubuntu: apt-get"
    " install libpcap0.8, Fedora, RHEL: dnf install libpcap) and the extra, {command}, or"
    " install tcpdump; --port needs neither"
)
TAGS: Final = (
    "--filter with `vlan` finds nothing: Linux takes the tag off a packet before any filter sees"
    " it; capture on the VLAN's own interface (as eth0.5), or leave `vlan` out"
)
COMPILER_SECONDS: Final = 20
U32: Final = 0xFFFFFFFF


def compile_expression(expression: str, link_type: int) -> Program:
    """Compile the expression, for a socket whose packets have `link_type`.

    Raises CaptureError with libpcap's message.
    """
    if re.search(r"\bvlan\b", expression):
        raise CaptureError(TAGS)
    compiled = compile_by_library(expression, link_type)
    return compile_by_tcpdump(expression, link_type) if compiled is None else compiled


def compile_by_library(expression: str, link_type: int) -> Program | None:
    """Compile it by the libpcap that scapy finds; None if either is missing."""
    try:
        from scapy.arch.common import compile_filter
        from scapy.error import Scapy_Exception
    except ImportError:
        return None
    kind = DLT_ETHERNET if link_type == ETHERNET else DLT_RAW
    try:
        compiled = compile_filter(expression, linktype=kind)
    except ImportError:
        return None
    except Scapy_Exception as error:
        # The expression precedes the reason in brackets; older releases have a number there.
        found = re.search(r"\((.*)\)$", str(error), re.DOTALL)
        reason = found[1] if found else str(error)
        if reason.lstrip("-").isdigit():
            reason = "libpcap does not take it"
        raise wrong_expression(expression, reason) from error
    lines = [compiled.bf_insns[at] for at in range(compiled.bf_len)]
    # Values are signed in scapy's structure, but unsigned in the kernel's.
    return [Instruction(line.code, line.jt, line.jf, line.k & U32) for line in lines]


def compile_by_tcpdump(expression: str, link_type: int) -> Program:
    """Compile it by the program tcpdump, which prints the result."""
    program = shutil.which("tcpdump")
    if program is None:
        raise CaptureError(NO_COMPILER.format(command=install_command("live")))
    kind = "EN10MB" if link_type == ETHERNET else "RAW"
    # The expression is a single argument after all options, so no part of it is taken as one.
    command = [program, "-ddd", "-y", kind, "--", expression]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False, timeout=COMPILER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CaptureError(f"--filter could not be compiled by {program}: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["tcpdump says nothing"]
        raise wrong_expression(expression, said[-1].removeprefix("tcpdump: "))
    lines = done.stdout.splitlines()[1:]
    return [Instruction(*(int(field) for field in line.split())) for line in lines]


def wrong_expression(expression: str, reason: str) -> CaptureError:
    """Error for an expression that libpcap rejects."""
    return CaptureError(f"--filter {expression!r}: {reason} (its language is that of tcpdump)")
