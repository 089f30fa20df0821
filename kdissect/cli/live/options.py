"""Options of commands that capture: what to read, sizes, durations, and addresses."""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kdissect.cli.completing import completed_files
from kdissect.cli.help import CAPTURE, option
from kdissect.cli.options import MAX_PORT, F
from kdissect.errors import InvalidArgument

DURATIONS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd])", re.ASCII)
SIZE: Final = re.compile(r"(\d{1,12})([KMGT]?)(?:i?B)?", re.ASCII)
ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]*)):(\d{1,5})", re.ASCII)
SAMPLE: Final = re.compile(r"connections=1/(\d{1,9})", re.ASCII)
MOST_SHARE: Final = 1024
LEAST_WINDOW_S: Final = 10
LOOPBACK: Final = "127.0.0.1"
WAYS: Final = ("auto", "ring", "scapy")
SOURCE: Final = ("sources", "interfaces", "follow", "expression", "all_ports", "snaplen",
                 "buffer_bytes", "through", "promiscuous", "share",
                 "netns", "earlier")  # fmt: skip


class Address(NamedTuple):
    """Address to listen on."""

    host: str
    port: int


class Rotation(NamedTuple):
    """Rotation limits; None: no such limit."""

    every_s: int | None = None
    size: int | None = None


def seconds_of(text: str) -> float:
    """A duration like 10m; raises ValueError.

    >>> seconds_of("10m"), seconds_of("0.5s")
    (600.0, 0.5)
    """
    match = DURATION.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is no duration; write it like 30s, 10m, 1h or 2d")
    return float(match[1]) * DURATIONS[match[2]]


def window_of(text: str) -> float:
    """A duration of ten seconds or more; raises ValueError."""
    seconds = seconds_of(text)
    if seconds < LEAST_WINDOW_S:
        raise ValueError(f"{text!r} is too short; {LEAST_WINDOW_S} s is the least")
    return seconds


def bytes_of(text: str) -> int:
    """A size like 256MB, in powers of 1024; raises ValueError.

    >>> bytes_of("256MB") == bytes_of("256M") == 256 << 20
    True
    """
    match = SIZE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no size; write it like 64M, 256MB or 10G")
    return int(match[1]) * SIZES[match[2]]


def share_of(text: str) -> int:
    """The N of a sample of 1/N of all connections; raises ValueError.

    >>> share_of("connections=1/8")
    8
    """
    match = SAMPLE.fullmatch(text)
    if match is None or not 1 < int(match[1]) <= MOST_SHARE:
        raise ValueError(f"{text!r} is no sample; write it like connections=1/8, to 1/{MOST_SHARE}")
    return int(match[1])


def address_of(text: str) -> Address:
    """An address like :9123, which is on loopback; raises ValueError.

    >>> address_of(":9123"), address_of("[::1]:9123")
    (Address(host='127.0.0.1', port=9123), Address(host='::1', port=9123))
    """
    match = ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT:
        raise ValueError(f"{text!r} is no [ADDRESS]:PORT; write it like :9123 or 0.0.0.0:9123")
    return Address(match[1] or match[2] or LOOPBACK, int(match[3]))


def rotation_of(texts: tuple[str, ...]) -> Rotation:
    """A duration, a size, or both; raises ValueError.

    >>> rotation_of(("60s", "256MB"))
    Rotation(every_s=60, size=268435456)
    """
    rotation = Rotation()
    for text in texts:
        if DURATION.fullmatch(text):
            seconds = seconds_of(text)
            if seconds != int(seconds):
                raise ValueError(f"{text!r}: files rotate after whole seconds")
            if rotation.every_s is not None:
                raise ValueError("two durations; give one duration, one size, or both")
            rotation = rotation._replace(every_s=int(seconds))
        elif SIZE.fullmatch(text):
            if rotation.size is not None:
                raise ValueError("two sizes; give one duration, one size, or both")
            rotation = rotation._replace(size=bytes_of(text))
        else:
            raise ValueError(f"{text!r} is neither a duration nor a size, like 60s or 256MB")
    return rotation


def parsed_by(parse: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A click callback that parses; a ValueError becomes click's error."""

    def callback(_: click.Context, __: click.Parameter, text: Any) -> Any:
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback


topic_names = option(
    "--topic-names-from",
    "log_directories",
    group=CAPTURE,
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Log directory of the broker (log.dirs), whose partition.metadata files have the names of "
    "topic ids; repeatable.",
)


def capturing(command: F) -> F:
    """Add packet source options; the command gets `asked`, a `live.source_choice.Asked`."""

    @wraps(command)
    def with_asked(**values: Any) -> Any:
        from kdissect.live.source_choice import Asked

        given = {name: values.pop(name) for name in SOURCE}
        asked = Asked(**{name: value for name, value in given.items() if value is not None})
        asked.check()
        return command(**values, asked=asked)

    wrapped: F = with_asked
    for one in (
        option(
            "--through",
            group=CAPTURE,
            type=click.Choice(WAYS),
            default="auto",
            help="Capture method: a ring shared with the kernel, scapy's sockets, or the best "
            "available.  [default: auto]",
        ),
        option(
            "--buffer",
            "buffer_bytes",
            group=CAPTURE,
            callback=parsed_by(bytes_of),
            default="64M",
            metavar="SIZE",
            help="Packet buffer, of all interfaces together.  [default: 64M]",
        ),
        option(
            "--snaplen",
            group=CAPTURE,
            type=click.IntRange(64, 262_144),
            default=262_144,
            metavar="BYTES",
            help="Capture at most this much of a packet; the rest is missing.  [default: 262144]",
        ),
        option(
            "--netns",
            group=CAPTURE,
            type=click.IntRange(1),
            metavar="PID",
            help="Interfaces of the network namespace of that process, as of a container.",
        ),
        option(
            "--with",
            "earlier",
            group=CAPTURE,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            multiple=True,
            metavar="FILE",
            help="A capture from before, with the TLS handshakes of connections that are open; "
            "repeatable.",
        ),
        option(
            "--sample",
            "share",
            group=CAPTURE,
            callback=parsed_by(share_of),
            metavar="connections=1/N",
            help="Capture one in N connections, whole ones, and multiply counts by N.",
        ),
        option(
            "--promiscuous",
            group=CAPTURE,
            is_flag=True,
            help="Capture packets for other hosts too, as on a mirror port.",
        ),
        click.option(
            "--all-ports", is_flag=True, help="Capture all TCP ports, not just those of brokers."
        ),
        click.option(
            "--filter",
            "expression",
            default="",
            metavar="EXPRESSION",
            help="Additional capture filter in tcpdump syntax: 'host 10.0.0.1'.",
        ),
        click.option(
            "--follow",
            is_flag=True,
            help="Wait for more: SOURCE is a growing file, a directory, a quoted glob.",
        ),
        click.option(
            "-i",
            "--interface",
            "interfaces",
            multiple=True,
            metavar="IFACE",
            help="Capture on this interface; repeatable. `any` is all interfaces.",
        ),
        click.argument("sources", nargs=-1, metavar="[SOURCE]...", shell_complete=completed_files),
    ):
        wrapped = one(wrapped)
    return wrapped


workers_option: Final = option(
    "--workers",
    group=CAPTURE,
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that share the connections, each on a processor of its own.",
)


def refuse_workers(workers: int, asked: Any, settings: Mapping[str, Any]) -> None:
    """Reject what several workers cannot do; raises InvalidArgument."""
    asked.check_workers(workers)
    if workers == 1:
        return
    for path in settings["keylog"]:
        if Path(path).is_fifo():
            raise InvalidArgument(f"{path} is a pipe, which one process can read, not --workers")
