"""The programs that capture while a sender sends, and what each says of its packets.

All of them have a buffer of the same size and a filter of the kernel for the broker's port, and run
bound to the last core. What they write goes to one directory, of the same disk:

- kdissect live, with its ring and with scapy's socket: all default tables, rotated
- snaplen: the same with its ring, and as much of each packet as exchanges need
- tcpdump -w: the packets themselves
- tshark: frame number, API key, API version, correlation id, client id and error code of each
  packet with a Kafka message
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyarrow import compute, parquet

from benchmarks.peers import FIELDS
from benchmarks.timing import KDISSECT

PORT = 9092
BUFFER_MIB = 64
SNAPLEN = "128"  # docs/live.md
LAST_CORE = "1"
PRINTED = "printed"  # file of its output
LAST_LINES = 1 << 16  # bytes
FILTER = f"tcp port {PORT}"
# Packets after the last one with a Kafka message: the rest of a message of a megabyte, with ACKs.
TSHARK_SLACK = 2000
DROPPED = re.compile(r"lost (\d+) packets")


class Counted(NamedTuple):
    """Packets that came out of a capturer, and those it reports as lost."""

    packets: int
    dropped: int


class Capturer(NamedTuple):
    """Command of a capturer; ``{}`` is the interface, ``{out}`` a new directory."""

    name: str
    command: tuple[str, ...]
    counted: Callable[[str, Path], Counted]  # from its output and files
    path: str = ""  # PYTHONPATH
    slack: int = 0  # packets at the end that it need not tell of
    cores: str = LAST_CORE  # that it is bound to


def capturers(compiled: str) -> dict[str, Capturer]:
    """All of them, by name, slowest last."""
    ring = kdissect("ring", compiled)
    command = (*ring.command, "--snaplen", SNAPLEN)
    short = ring._replace(name="snaplen", command=command)
    found = [tcpdump(), short, ring, kdissect("scapy", compiled), tshark()]
    return {one.name: one for one in found}


def shared(workers: int, path: str, cores: str, buffer_mb: int = BUFFER_MIB) -> Capturer:
    """Live capture with several workers, which divide the buffer."""
    one = kdissect("ring", path, buffer_mb=buffer_mb)
    command = (*one.command, "--workers", str(workers))
    return one._replace(name=f"workers {workers}", command=command, cores=cores)


def kdissect(through: str, path: str, rotate: str = "60s", buffer_mb: int = BUFFER_MIB) -> Capturer:
    command = (
        *KDISSECT, "live", "-i", "{}", "-o", "{out}/live", "--rotate", rotate,
        "--through", through, "--buffer", f"{buffer_mb}MB",
    )  # fmt: skip
    return Capturer(through, command, dissected, path)


def tcpdump() -> Capturer:
    command = (
        "tcpdump", "-i", "{}", "-n", "-s", "0", "-Z", "root", "-B", str(BUFFER_MIB * 1024),
        "-w", "{out}/out.pcap", FILTER,
    )  # fmt: skip
    return Capturer("tcpdump", command, said_by_tcpdump)


def tshark() -> Capturer:
    command = [
        "tshark", "-i", "{}", "-n", "-B", str(BUFFER_MIB), "-f", FILTER,
        "-d", f"tcp.port=={PORT},kafka", "-Y", "kafka", "-T", "fields",
        "-e", "frame.number",
    ]  # fmt: skip
    for field in FIELDS:
        command += ["-e", field]
    return Capturer("tshark", tuple(command), said_by_tshark, slack=TSHARK_SLACK)


def said_by_tcpdump(said: str, _: Path) -> Counted:
    """Packets written, and packets dropped by the kernel."""
    return Counted(
        number(r"(\d+) packets? captured", said), number(r"(\d+) packets? dropped", said)
    )


def said_by_tshark(said: str, scratch: Path) -> Counted:
    """The number of the last packet with a message: it lags behind its capturing process."""
    with (scratch / PRINTED).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_LINES))
        lines = file.read().decode(errors="replace").splitlines()
    numbers = [line.split("\t")[0] for line in lines if "\t" in line][1:]
    last = int(numbers[-1]) if numbers else 0
    return Counted(last, number(r"(\d+) packets? dropped", said))


def dissected(_: str, scratch: Path) -> Counted:
    """Packets of all connections in its tables, and lost ones according to its problems.

    Connections are where they ended, or with those that are open at the end of a run's last
    rotation.
    """
    rotations = sorted((scratch / "live").glob("[!.]*/[!.]*/"))
    last = {one.parent: one for one in rotations}.values()
    open_ones = [one / "open_connections.parquet" for one in last]
    files = [*(one / "connections.parquet" for one in rotations), *open_ones]
    packets = sum(packets_of(file) for file in files if file.exists())
    problems = [one / "problems.parquet" for one in rotations]
    return Counted(packets, sum(lost_in(file) for file in problems if file.exists()))


def lost_in(file: Path) -> int:
    """Packets that its problems report as dropped by the kernel."""
    messages = parquet.read_table(file, columns=["message"])["message"].to_pylist()
    return sum(int(found[1]) for one in messages if (found := DROPPED.search(one)))


def packets_of(file: Path) -> int:
    table = parquet.read_table(file, columns=["packets_to_broker", "packets_to_client"])
    return sum(compute.sum(column).as_py() or 0 for column in table.columns)


def number(pattern: str, said: str) -> int:
    """Number found by the pattern; 0 if absent."""
    found = re.search(pattern, said)
    return int(found[1]) if found else 0
