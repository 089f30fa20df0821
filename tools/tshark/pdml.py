"""Runs tshark and reads its fields of each Kafka message as plain values."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from kdissect.protocol.apis import APIS

PREFIX: Final = "kafka."
# Shown for every message beside its body.
HEADING: Final = frozenset(
    {"len", "request_key", "api_key", "request.version", "api_version", "response_key",
     "response.version", "correlation_id", "client_id", "request_frame", "response_frame"}
)  # fmt: skip
NULL: Final = "[ Null ]"
EMPTY: Final = "[ Empty ]"
SHORT: Final = 24  # bytes; of longer ones a hash is kept

Token = tuple[str, Any]
Place = tuple[int, int, int]  # both ports, correlation id
Asked = tuple[int, int]  # API key and version


class Told(NamedTuple):
    """One message as tshark shows it: `tokens` are the fields of its body in their order.

    `complaints` are tshark's errors. `frame` is where the message ends.
    """

    frame: int
    source_port: int
    destination_port: int
    api_key: int
    api_version: int
    is_response: bool
    correlation_id: int
    client_id: str | None
    length: int
    complaints: tuple[str, ...]
    tokens: tuple[Token, ...]


def run_tshark(arguments: list[str]) -> str:
    environment = os.environ | {"TZ": "UTC", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(["tshark", *arguments], check=True, capture_output=True, env=environment)
    # It cuts long texts, in the middle of a character if need be.
    return ended.stdout.decode("utf-8", "replace")


def tshark_version() -> str:
    return run_tshark(["--version"]).splitlines()[0]


def field_types() -> dict[str, str]:
    """Field → its type, without prefix; like ``{"kafka.len": "INT32"}``."""
    rows = [line.split("\t") for line in run_tshark(["-G", "fields"]).splitlines()]
    return {row[2]: row[3][3:] for row in rows if row[0] == "F" and row[2].startswith(PREFIX)}


def broker_ports(capture: Path) -> list[int]:
    """Ports that connections are opened to."""
    opened = "tcp.flags.syn == 1 && tcp.flags.ack == 0"
    told = run_tshark(["-r", str(capture), "-Y", opened, "-T", "fields", "-e", "tcp.dstport"])
    return sorted({int(line) for line in told.split()})


def told_of(capture: Path, types: dict[str, str]) -> Iterator[Told]:
    """Every Kafka message of a capture that tshark knows the request of."""
    ports = [part for port in broker_ports(capture) for part in ("-d", f"tcp.port=={port},kafka")]
    with tempfile.NamedTemporaryFile("w+", suffix=".pdml") as pdml:
        pdml.write(run_tshark(["-r", str(capture), *ports, "-Y", "kafka", "-T", "pdml"]))
        pdml.flush()
        asked: dict[Place, Asked | None] = {}
        for _, element in ElementTree.iterparse(pdml.name):  # noqa: S314 - tshark wrote it
            if element.tag != "packet":
                continue
            for message in packet_messages(element, types):
                known = with_request(message, asked)
                if known is not None:
                    yield known
            element.clear()


def with_request(message: Told, asked: dict[Place, Asked | None]) -> Told | None:
    """A response with the key and version of its request, which tshark only has in its title.

    None when tshark cannot know the request: not captured, or the second with a correlation id
    (re-authentication uses the same few again), for which tshark takes the first.
    """
    if not message.is_response:
        place = (message.source_port, message.destination_port, message.correlation_id)
        is_repeated = place in asked
        asked[place] = None if is_repeated else (message.api_key, message.api_version)
        return message
    place = (message.destination_port, message.source_port, message.correlation_id)
    found = asked.get(place)
    return None if found is None else message._replace(api_key=found[0], api_version=found[1])


def packet_messages(packet: ElementTree.Element, types: dict[str, str]) -> Iterator[Told]:
    shown: dict[str, str] = {}
    for proto in packet.findall("proto"):
        if proto.get("name") == "kafka":
            # tshark takes raw SASL tokens for requests: of no API, or too short for one.
            if proto.find("field[@name='kafka.correlation_id']") is not None:
                message = message_of(proto, shown, types)
                if message.is_response or message.api_key in APIS:
                    yield message
        elif proto.get("name") in ("geninfo", "frame", "tcp"):
            shown |= {field.get("name", ""): field.get("show", "") for field in proto.iter("field")}


def message_of(proto: ElementTree.Element, shown: dict[str, str], types: dict[str, str]) -> Told:
    fields = [field for field in proto.iter("field") if field.get("name", "").startswith(PREFIX)]
    heading = {field.get("name", "")[6:]: field.get("show", "") for field in reversed(fields)}
    is_response = "request.version" not in heading
    client_id = heading.get("client_id")
    return Told(
        int(shown["frame.number"]),
        int(shown["tcp.srcport"]),
        int(shown["tcp.dstport"]),
        int(heading.get("api_key", -1)),
        int(heading.get("api_version", -1)),
        is_response,
        int(heading["correlation_id"]),
        None if client_id in (None, NULL) else client_id.replace(EMPTY, ""),
        int(heading["len"]),
        tuple(sorted(set(complaints(proto)))),
        tuple(tokens(fields, types)),
    )


def complaints(proto: ElementTree.Element) -> Iterator[str]:
    for field in proto.iter("field"):
        if field.get("name") == "_ws.expert.message":
            yield field.get("show", "")
        elif field.get("name") == "_ws.malformed":
            yield "Malformed"


def tokens(fields: list[ElementTree.Element], types: dict[str, str]) -> Iterator[Token]:
    for field in fields:
        name = field.get("name", "")
        kind = types[name]
        if name.removeprefix(PREFIX) not in HEADING and kind != "NONE":
            yield name.removeprefix(PREFIX), value_of(field, kind)


def value_of(field: ElementTree.Element, kind: str) -> Any:
    shown, raw = field.get("show", ""), field.get("value", "")
    if kind == "BYTES":
        return short(bytes.fromhex(raw))
    if kind == "STRING":
        return None if shown == NULL else shown.replace(EMPTY, "")
    if kind == "ABSOLUTE_TIME":
        # tshark shows batches' times wrong (it multiplies in 32 bits); the bytes are at hand.
        if field.get("size") == "8":
            return int.from_bytes(bytes.fromhex(raw), "big", signed=True)
        return milliseconds(shown)
    if kind == "FLOAT":
        return None
    return int(shown, 0)


def short(data: bytes) -> str:
    """Bytes as hex, or their count and a hash."""
    return (
        data.hex() if len(data) <= SHORT else f"{len(data)}:{hashlib.sha256(data).hexdigest()[:12]}"
    )


def milliseconds(shown: str) -> int | str:
    """Like "Nov 21, 2026 06:11:05.182000000 UTC"; unchanged when it is no such time."""
    try:
        whole, fraction = shown.removesuffix(" UTC").split(".")
        time = datetime.strptime(whole, "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC)
        return int(time.timestamp()) * 1000 + int(fraction[:3])
    except ValueError:
        return shown
