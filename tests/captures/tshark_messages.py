"""Messages of the oracle beside those of kdissect."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kdissect.capture.files import open_captures
from kdissect.framing.frames import Frame
from kdissect.messages.headers import (
    read_request_header,
    response_body_offset,
    response_layout_version,
)
from kdissect.messages.layout_choice import REQUEST, RESPONSE, decode_body
from kdissect.pipeline import Options, make_dissector
from tests.captures.tshark_fields import LAST_OF_MESSAGE, NOT_FIELDS
from tools.golden import captures
from tools.tshark.oracle import CRAFTED, Line
from tools.tshark.pdml import Token, Told

# Frame where a message ends, its direction, correlation id → the message without size.
Frames = dict[tuple[int, bool, int], bytes]


def frames_of(path: Path) -> Frames:
    """All messages of a capture."""
    dissector = make_dissector(Options(tables=()), collects=True, keeps_frames=True)
    with open_captures(str(path)) as capture:
        for packets in capture:
            dissector.feed(packets)
    dissector.finish()
    frames: Frames = {}
    for exchange in dissector.take_exchanges():
        sides: tuple[Frame | None, Frame | None] = (exchange.request_frame, exchange.response_frame)
        for side, frame in enumerate(sides):
            if frame is not None and not frame.missing:
                frames[frame.end_packet, bool(side), exchange.correlation_id] = frame.data
    return frames


def frame_bytes(lines: list[Line]) -> list[tuple[Told, bytes]]:
    """The messages with their bytes; a message that kdissect does not find has none."""
    paths = {path.name: path for path in captures()}
    frames = {name: frames_of(paths[name]) for name in {line.capture for line in lines} - {CRAFTED}}
    found = []
    for line in lines:
        told = line.told
        place = (told.frame, told.is_response, told.correlation_id)
        data = bytes.fromhex(line.data) or frames[line.capture].get(place, b"")
        found.append((told, data))
    return found


def body_of(told: Told, data: bytes) -> dict[str, Any]:
    key, version = told.api_key, told.api_version
    if told.is_response:
        offset = response_body_offset(key, version, data)
        version = response_layout_version(key, version, data)
        return decode_body(key, version, RESPONSE, data, offset)
    return decode_body(key, version, REQUEST, data, read_request_header(data).body_offset)


def comparable(tokens: Iterable[Token], cuts: Sequence[str] = ()) -> list[Token]:
    """Tokens before the first one that `cuts` names, of fields that can be compared."""
    kept: list[Token] = []
    has_append_time = False
    for name, value in tokens:
        if name in cuts:
            break
        if name == "batch_timestamp_type":
            has_append_time = value == 1
        if name in NOT_FIELDS or (name == "message_timestamp" and has_append_time):
            continue
        kept.append((name, None if name == "truncated_content" else value))
        if name == LAST_OF_MESSAGE:
            break
    return kept


def by_name(tokens: Iterable[Token]) -> dict[str, list[Any]]:
    """Values of each name."""
    values = defaultdict(list)
    for name, value in tokens:
        values[name].append(value)
    return dict(values)
