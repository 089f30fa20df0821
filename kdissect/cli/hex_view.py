"""Messages in hex: a line for each field, with its offset, its bytes and its value."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kdissect.cli.terminal import styled
from kdissect.cli.tree import SIDES, WITHHELD, scalar
from kdissect.messages.field_places import HEADER_TAGS, SURPLUS, UNREAD, FieldPlace, field_places
from kdissect.messages.opened_records import RECORDS_FIELDS
from kdissect.text.escape import escaped
from kdissect.text.human import byte_count, counted

if TYPE_CHECKING:
    from kdissect.api.dissected import DissectedExchange

ROW: Final = 16
ROWS: Final = 16  # of a field; more bytes are counted
HIDDEN: Final = "··"
HEX_WIDTH: Final = 3 * ROW - 1


def hex_lines(
    exchange: "DissectedExchange", has_payload: bool, has_undecoded: bool
) -> Iterator[str]:
    """The fields of both messages; credentials are dots, and so are records without payload.

    A message that may be of another API than its header says is withheld unless `has_undecoded`.
    """
    for side in SIDES:
        data = exchange.raw_frame(side)
        if not data or exchange.api_key is None or exchange.api_version is None:
            continue
        yield f"  {side}, {byte_count(len(data))}"
        hidden = [] if has_undecoded else exchange.hidden_places(side)
        if hidden is None:
            yield f"    {WITHHELD}"
            continue
        masked = [(place.start, place.end) for place in hidden]
        topics = exchange.topic_names()
        places = field_places(exchange.api_key, exchange.api_version, data, side == "response")
        for place in places:
            is_withheld = any(start < place.end and place.start < end for start, end in masked)
            is_withheld |= not has_payload and not has_undecoded and is_records(place)
            yield from field_lines(place, data, masked if is_withheld else [], is_withheld, topics)


def is_records(place: FieldPlace) -> bool:
    """Return whether the bytes of a field are records."""
    return place.path.rpartition(".")[2] in RECORDS_FIELDS


def field_lines(
    place: FieldPlace,
    data: bytes,
    masked: Sequence[tuple[int, int]],
    is_withheld: bool,
    topics: dict[str, str],
) -> Iterator[str]:
    """The lines of a field: 16 bytes each, the path and value beside the first."""
    style = "hot" if place.path in (SURPLUS, UNREAD) else ""
    note = escaped(place.path)
    if is_withheld:
        note += ": not shown"
    elif place.path == SURPLUS:
        note = f"{byte_count(place.end - place.start)} {SURPLUS}"
    elif place.elements is not None:
        note += f" ({counted(place.elements, 'element')})"
    elif place.path != HEADER_TAGS:
        note += f": {scalar(place.value)}"
        if place.path.endswith("topic_id") and (name := topics.get(str(place.value))):
            note += f" {scalar(name)}"
    rows = 1 if is_withheld else ROWS
    for number, start in enumerate(range(place.start, max(place.end, place.start + 1), ROW)):
        if number == rows:
            yield f"              {place.end - start} more bytes"
            return
        end = min(start + ROW, place.end)
        cells = " ".join(
            HIDDEN
            if is_withheld and (not masked or any(a <= at < b for a, b in masked))
            else f"{data[at]:02x}"
            for at in range(start, end)
        )
        text = styled(note, style) if number == 0 and style else note if number == 0 else ""
        yield f"    {styled(f'{start:08x}', 'dim')}  {cells:{HEX_WIDTH}}  {text}".rstrip()
