"""Documents: a header, and a value of a declared kind; see the package."""

import struct
import zlib
from typing import Any, Final, NamedTuple

from kdissect.encoding.classes import NUMBERED, Layout
from kdissect.encoding.kinds import Kind
from kdissect.encoding.sinks import Sink
from kdissect.encoding.sources import Source
from kdissect.errors import EncodingError

HEADER: Final = struct.Struct("<4sHHIQ")
MAGIC: Final = b"kdv1"
# Exceptions raised by constructors for inconsistent values.
DAMAGE: Final = (LookupError, ValueError, TypeError, AttributeError, OverflowError)


class Document(NamedTuple):
    """A kind of document: its number, its name in messages, its version and the type of its root.

    Readers distinguish kinds by number, which is unique in kdissect; a version covers the format of
    everything in the root.
    """

    number: int
    name: str
    version: int
    root: Kind


def dump(document: Document, value: Any, version: int | None = None) -> bytes:
    """Encode the value as a document; raises EncodingError if it is not of the declared type."""
    sink = Sink()
    document.root.write(sink, value)
    # The list grows while objects refer to others.
    for layout, one in sink.objects:
        layout.write(sink, one)
    before = Sink()
    before.integer(len(sink.objects))
    numbers = bytes(layout.number for layout, _ in sink.objects)
    content = bytes(before.out) + numbers + bytes(sink.out)
    version = document.version if version is None else version
    crc = zlib.crc32(content)
    return HEADER.pack(MAGIC, document.number, version, crc, len(content)) + content


def load(document: Document, content: bytes) -> Any:
    """Decode a document written by `dump`; raises EncodingError for anything else."""
    try:
        return read(document.root, Source(checked(document, content)))
    except EncodingError as error:
        raise EncodingError(f"no {document.name}: {error}") from error
    except DAMAGE as error:
        raise EncodingError(f"no {document.name}: its values do not fit: {error}") from error


def checked(document: Document, content: bytes) -> bytes:
    """Content after the header, which is checked."""
    if len(content) < HEADER.size:
        raise EncodingError(f"{len(content)} bytes")
    magic, number, version, crc, size = HEADER.unpack_from(content)
    if (magic, number) != (MAGIC, document.number):
        raise EncodingError("bytes of something else, or of another version of kdissect")
    if version != document.version:
        raise EncodingError(f"version {version}; this version of kdissect reads {document.version}")
    inside = content[HEADER.size :]
    if size != len(inside):
        raise EncodingError(f"{len(inside)} bytes of {size}")
    if zlib.crc32(inside) != crc:
        raise EncodingError("damaged: the checksum is wrong")
    return inside


def read(root: Kind, source: Source) -> Any:
    """Decode the root of a content, and all its objects."""
    layouts = layouts_of(source.take(source.count(1)))
    least = root.least + sum(layout.least for layout in layouts)
    if least > source.left:
        raise EncodingError(f"objects of {least} bytes at least in {source.left} bytes")
    source.objects = [layout.blank() for layout in layouts]
    value = root.read(source)
    for layout, one in zip(layouts, source.objects, strict=True):
        layout.read(source, one)
    if source.left:
        raise EncodingError(f"{source.left} bytes too many")
    return value


def layouts_of(numbers: bytes) -> list[Layout]:
    """Classes with these numbers."""
    unknown = {*numbers} - NUMBERED.keys()
    if unknown:
        raise EncodingError(f"there is no class {min(unknown)}")
    return [NUMBERED[number] for number in numbers]
