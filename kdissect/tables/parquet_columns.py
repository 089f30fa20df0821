"""Arrow arrays of one column → the pages of its chunk in a row group of a Parquet file.

A page holds what was added at once. Few values in long runs, or few at all, become places in the
chunk's dictionary; other integers their differences, other texts themselves.

    chunk   [dictionary page], data pages, all compressed or none
    page    header (Thrift), content
    data    u32 size, levels (0 null, 1 not), the values that are not null
"""

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard

from kdissect.tables import thrift
from kdissect.tables.parquet_pages import (
    Array,
    deltas,
    one_run,
    packed_flags,
    packed_places,
    run_starts,
    runs_of_places,
)
from kdissect.tables.thrift import varint

# Of Parquet's enums.
BOOLEAN: Final = 0
INT32: Final = 1
INT64: Final = 2
BYTE_ARRAY: Final = 6

PLAIN: Final = 0
RLE: Final = 3
DELTA: Final = 5
DICTIONARY: Final = 8

DATA_PAGE: Final = 0
DICTIONARY_PAGE: Final = 2

UNCOMPRESSED: Final = 0
ZSTD: Final = 6

COMPRESSION_LEVEL: Final = 1  # zstd; level 3 is 10 % smaller and takes twice the time
# A chunk of less than this stays as it is: zstd takes 3 µs to begin.
SMALL_CHUNK: Final = 512

RUN_LENGTH: Final = 8  # runs of so many values at least, on average, are written as runs
FEW: Final = 256  # so many different values in a page have places of a byte
SPAN: Final = 1 << 16  # how far apart they may be, to be told by a table of all between
MANY: Final = -1  # of a page of different values
NOTHING: Final = -2  # of one of nulls only
DICTIONARY_LIMIT: Final = 1 << 16  # places are of 16 bits at most
DICTIONARY_BYTES: Final = 1 << 20
TOLD_SIZE: Final = 64  # longer texts are not told as the least or largest one


class Page(NamedTuple):
    """A data page: how many values, how encoded, and its content.

    One of which all values are the same has no content, but their `place`, NOTHING for null.
    """

    values: int
    encoding: int
    content: bytes
    place: int = MANY


class Column:
    """The chunk of one column that is being filled; `finish` gives it and begins the next."""

    physical: int

    def __init__(self, name: str) -> None:
        self.name = name
        self._begin()

    def _begin(self) -> None:
        self.pages: list[Page] = []
        self.size = 0
        self.count = 0
        self.nulls = 0
        self.least: Any = None
        self.largest: Any = None
        self.places: dict[Any, int] = {}
        self.dictionary_size = 0
        self.has_dictionary = True

    def add(self, array: pa.Array) -> None:
        """Make a page of an array; what is the same as in the page before extends that."""
        count = len(array)
        if count == 0:
            return
        page = self._page(array, count)
        self.count += count
        self.size += len(page.content)
        if page.place != MANY and self.pages and self.pages[-1].place == page.place:
            last = self.pages.pop()
            page = page._replace(values=count + last.values)
        # Spark 4.3 reads pages of places wrongly that come behind others: so there are no more.
        self.has_dictionary &= page.encoding == DICTIONARY
        self.pages.append(page)

    def _page(self, array: pa.Array, count: int) -> Page:
        nulls = array.null_count
        self.nulls += nulls
        if nulls == count:
            return Page(count, DICTIONARY if self.has_dictionary else PLAIN, b"", NOTHING)
        if nulls == 0:
            page = self._values(array, None)
            if page.place != MANY:
                return page
            levels = one_run(count, 1)
        else:
            present = validity(array)
            levels = packed_flags(present)
            page = self._values(array, present)
            if page.place != MANY:
                page = page._replace(content=place_of_all(page.values, page.place), place=MANY)
        return page._replace(values=count, content=with_levels(levels, page.content))

    def _values(self, array: pa.Array, present: Array | None) -> Page:
        """A page of what is not null, one value at least, still without levels."""
        raise NotImplementedError

    def _dictionary(self) -> bytes:
        """The values that have places, as they are."""
        raise NotImplementedError

    def _told(self, value: Any) -> bytes | None:
        """The least or largest value; None when it is not told."""
        raise NotImplementedError

    def finish(
        self, start: int, compressor: zstandard.ZstdCompressor
    ) -> tuple[list[bytes], bytes, int]:
        """The chunk, to be written from byte `start` on, and what the footer says of it.

        Also its size if it were not compressed.
        """
        codec = ZSTD if self.size + self.dictionary_size >= SMALL_CHUNK else UNCOMPRESSED
        parts: list[bytes] = []
        raw_size = dictionary_end = 0
        if self.places:
            content = self._dictionary()
            kind = thrift.nested(7, [thrift.int32(1, len(self.places)), thrift.int32(2, PLAIN)])
            raw_size = put_page(parts, DICTIONARY_PAGE, content, kind, codec, compressor)
            dictionary_end = sum(map(len, parts))
        pages = [self._whole(page) for page in self.pages]
        for count, encoding, content, _ in pages:
            fields = (count, encoding, RLE, RLE)
            kind = thrift.nested(5, [thrift.int32(i, n) for i, n in enumerate(fields, 1)])
            raw_size += put_page(parts, DATA_PAGE, content, kind, codec, compressor)
        encodings = {RLE} | {page.encoding for page in pages}
        sizes = raw_size, sum(map(len, parts)), dictionary_end
        metadata = self._metadata(start, codec, encodings, sizes)
        self._begin()
        chunk = thrift.struct([thrift.int64(2, start), thrift.nested(3, metadata)])
        return parts, chunk, raw_size

    def _whole(self, page: Page) -> Page:
        """The page with its content."""
        if page.place == MANY:
            return page
        if page.place != NOTHING:
            values = place_of_all(page.values, page.place)
            return page._replace(content=with_levels(one_run(page.values, 1), values))
        # Of places there is their width, though there are none: DuckDB looks for it.
        content = with_levels(one_run(page.values, 0), b"\x08" if self.places else b"")
        return page._replace(encoding=page.encoding if self.places else PLAIN, content=content)

    def _metadata(
        self, start: int, codec: int, encodings: set[int], sizes: tuple[int, int, int]
    ) -> list[thrift.Field]:
        raw_size, size, dictionary_end = sizes
        if self.places:
            encodings.add(PLAIN)
        fields = [
            thrift.int32(1, self.physical),
            thrift.listed(2, thrift.INT32, [thrift.zigzag(one) for one in sorted(encodings)]),
            thrift.listed(3, thrift.BINARY, [thrift.sized(self.name.encode())]),
            thrift.int32(4, codec),
            thrift.int64(5, self.count),
            thrift.int64(6, raw_size),
            thrift.int64(7, size),
            thrift.int64(9, start + dictionary_end),
        ]
        if self.places:
            fields.append(thrift.int64(11, start))
        return fields + [thrift.nested(12, self._statistics())]

    def _statistics(self) -> list[thrift.Field]:
        fields = [thrift.int64(3, self.nulls)]
        if self.count > self.nulls:
            least, largest = self._told(self.least), self._told(self.largest)
            if least is not None and largest is not None:
                fields += [thrift.binary(5, largest), thrift.binary(6, least)]
        return fields

    def _note(self, least: Any, largest: Any) -> None:
        if self.least is None:
            self.least, self.largest = least, largest
        else:
            self.least, self.largest = min(self.least, least), max(self.largest, largest)

    def _placed(self, values: list[Any]) -> Array | None:
        """The places of values, new ones added; None when there is no room for them."""
        if not self.has_dictionary:
            return None
        places = self.places
        new = [value for value in dict.fromkeys(values) if value not in places]
        if new:
            size = self.dictionary_size + sum(map(self._size, new))
            if len(places) + len(new) > DICTIONARY_LIMIT or size > DICTIONARY_BYTES:
                return None
            self.dictionary_size = size
            places.update(zip(new, range(len(places), len(places) + len(new)), strict=True))
        found = np.array([places[value] for value in values], np.uint16)
        return found.astype(np.uint8) if found.max() < FEW else found

    def _size(self, value: Any) -> int:
        """The bytes of a value in the dictionary."""
        raise NotImplementedError


class Integers(Column):
    """A column of integers or times."""

    def __init__(self, name: str, arrow_type: pa.DataType) -> None:
        super().__init__(name)
        self.width = arrow_type.bit_width // 8
        self.physical = INT64 if self.width == 8 else INT32
        self.stored = np.dtype("<i8" if self.width == 8 else "<i4")

    def _values(self, array: pa.Array, present: Array | None) -> Page:
        values = integers(array, self.width)
        if present is not None:
            values = values[present]
        starts = run_starts(values)
        if are_runs(starts, values):
            page = self._of_runs(values[starts], starts, len(values))
            if page is not None:
                return page
        least, largest = int(values.min()), int(values.max())
        self._note(least, largest)
        if largest - least < min(SPAN, 2 * len(values)):
            places = self._few(values, least, largest - least + 1)
            if places is not None:
                return Page(len(values), DICTIONARY, places_each(places))
        return Page(len(values), DELTA, deltas(values.astype(self.stored, copy=False)))

    def _of_runs(self, values: Array, starts: Array, count: int) -> Page | None:
        """A page of runs; None when the dictionary has no room for their values."""
        listed = values.tolist()
        self._note(min(listed), max(listed))
        places = self._placed(listed)
        return None if places is None else page_of_runs(places, starts, count)

    def _few(self, values: Array, least: int, span: int) -> Array | None:
        """The place of each value, when there are few different ones."""
        above = np.subtract(values, least, dtype=np.intp)
        if span <= FEW:
            # Those between that do not occur cost less than to find them.
            different = np.arange(span)
        else:
            different = np.flatnonzero(np.bincount(above, minlength=span))
            if len(different) > FEW:
                return None
        places = self._placed((different + least).tolist())
        if places is None:
            return None
        by_value = np.zeros(span, places.dtype)
        by_value[different] = places
        found: Array = by_value[above]
        return found

    def _dictionary(self) -> bytes:
        return np.array(list(self.places), self.stored).tobytes()

    def _told(self, value: int) -> bytes:
        return value.to_bytes(self.stored.itemsize, "little", signed=True)

    def _size(self, value: int) -> int:
        return self.stored.itemsize


class Flags(Column):
    """A column of booleans."""

    physical = BOOLEAN

    def _values(self, array: pa.Array, present: Array | None) -> Page:
        flags = bits(array.buffers()[1], array.offset, len(array))
        if present is not None:
            flags = flags[present]
        self._note(int(flags.min()), int(flags.max()))
        return Page(len(flags), PLAIN, np.packbits(flags, bitorder="little").tobytes())

    def _told(self, value: int) -> bytes:
        return bytes([value])


class Texts(Column):
    """A column of texts, which are dictionaries in memory already."""

    physical = BYTE_ARRAY

    def _values(self, array: pa.Array, present: Array | None) -> Page:
        texts = contents(array.dictionary)
        indices = integers(array.indices, 4)
        if present is not None:
            indices = indices[present]
        starts = run_starts(indices)
        if are_runs(starts, indices):
            chosen = indices[starts]
            places = self._texts_placed(texts, chosen)
            if places is not None:
                return page_of_runs(places, starts, len(indices))
        used = np.flatnonzero(np.bincount(indices, minlength=len(texts)))
        places = self._texts_placed(texts, used)
        if places is not None:
            by_index = np.zeros(len(texts), places.dtype)
            by_index[used] = places
            return Page(len(indices), DICTIONARY, places_each(by_index[indices]))
        return Page(len(indices), PLAIN, joined(texts, indices))

    def _texts_placed(self, texts: list[bytes], used: Array) -> Array | None:
        chosen = [texts[index] for index in used.tolist()]
        self._note(min(chosen), max(chosen))
        return self._placed(chosen)

    def _dictionary(self) -> bytes:
        return b"".join(map(behind_size, self.places))

    def _told(self, value: bytes) -> bytes | None:
        return value if len(value) <= TOLD_SIZE else None

    def _size(self, value: bytes) -> int:
        return len(value) + 4


class Contents(Column):
    """A column of bytes."""

    physical = BYTE_ARRAY

    def _values(self, array: pa.Array, present: Array | None) -> Page:
        values = contents(array)
        chosen = np.arange(len(values)) if present is None else np.flatnonzero(present)
        return Page(len(chosen), PLAIN, joined(values, chosen))

    def _told(self, value: bytes) -> None:
        return None


def make_column(field: pa.Field) -> Column:
    """The column for a field of a schema."""
    if pa.types.is_dictionary(field.type):
        return Texts(field.name)
    if pa.types.is_boolean(field.type):
        return Flags(field.name)
    if pa.types.is_binary(field.type):
        return Contents(field.name)
    return Integers(field.name, field.type)


def put_page(
    parts: list[bytes],
    page_type: int,
    content: bytes,
    kind: thrift.Field,
    codec: int,
    compressor: zstandard.ZstdCompressor,
) -> int:
    """Add a page to `parts`; gives its size if it were not compressed."""
    packed = compressor.compress(content) if codec == ZSTD else content
    sizes = [thrift.int32(2, len(content)), thrift.int32(3, len(packed))]
    header = thrift.struct([thrift.int32(1, page_type), *sizes, kind])
    parts += (header, packed)
    return len(header) + len(content)


def are_runs(starts: Array, values: Array) -> bool:
    """Whether runs take less than a place for each value."""
    return len(starts) == 1 or len(starts) * RUN_LENGTH <= len(values)


def page_of_runs(places: Array, starts: Array, count: int) -> Page:
    """`count` values in runs that begin at `starts`, of those at `places` in the dictionary."""
    if len(starts) == 1:
        return Page(count, DICTIONARY, b"", int(places[0]))
    runs = runs_of_places(places, np.diff(np.append(starts, count)))
    return Page(count, DICTIONARY, bytes([8 * places.itemsize]) + runs)


def place_of_all(count: int, place: int) -> bytes:
    """One place for all values, behind its width."""
    return b"\x10" + varint(count << 1) + place.to_bytes(2, "little")


def with_levels(levels: bytes, values: bytes) -> bytes:
    """The content of a data page."""
    return len(levels).to_bytes(4, "little") + levels + values


def places_each(places: Array) -> bytes:
    """A place in a dictionary for each value, behind their width."""
    return bytes([8 * places.itemsize]) + packed_places(places)


def integers(array: pa.Array, width: int) -> Array:
    """The integers of an array, whatever where it has none. Not by `to_numpy`: it loads pandas."""
    last = array.offset + len(array)
    return np.frombuffer(array.buffers()[1], f"<i{width}", last)[array.offset :]


def validity(array: pa.Array) -> Array:
    """Of an array with nulls: 1 where there is a value, else 0."""
    return bits(array.buffers()[0], array.offset, len(array)).view(bool)


def bits(packed: pa.Buffer, start: int, count: int) -> Array:
    """Bits of a buffer, a byte each."""
    skipped = start % 8
    some = np.frombuffer(packed, np.uint8)[start // 8 : (start + count + 7) // 8]
    return np.unpackbits(some, bitorder="little", count=skipped + count)[skipped:]


def contents(array: pa.Array) -> list[bytes]:
    """The texts or bytes of an array; nothing where it is null."""
    _, offsets, content = array.buffers()
    if not len(array):
        return []
    last = array.offset + len(array) + 1
    ends = np.frombuffer(offsets, "<i4", last)[array.offset :].tolist()
    whole = b"" if content is None else memoryview(content)
    return [bytes(whole[start:end]) for start, end in pairwise(ends)]


def joined(values: list[bytes], indices: Array) -> bytes:
    """The chosen values as they are, each behind its size."""
    sized = list(map(behind_size, values))
    return b"".join([sized[index] for index in indices.tolist()])


def behind_size(value: bytes) -> bytes:
    """A value as PLAIN has it."""
    return len(value).to_bytes(4, "little") + value
