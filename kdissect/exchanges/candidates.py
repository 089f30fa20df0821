"""Candidate APIs of a response whose request was not captured.

A response contains neither its API nor its version, but few layouts end exactly where it ends with
existing error codes, plausible topic names and plausible counts. Layouts that are the same to the
byte can never be distinguished; among the others, APIs that the connection certainly used before
are more likely.
"""

import re
from functools import cache
from typing import Final, NamedTuple

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.exchanges.connection_state import ConnectionState, has_spoken
from kdissect.messages.extracted import FieldSink
from kdissect.messages.interner import Interner
from kdissect.messages.roles import ERROR, THROTTLE
from kdissect.protocol.apis import API_VERSIONS, APIS, api_name, response_header_version
from kdissect.protocol.error_codes import error_codes
from kdissect.protocol.plans import Plan, Plans
from kdissect.protocol.projections import KeptRun, ProjectedStruct
from kdissect.protocol.readers import NULL, VARIABLE, Reader, Shape
from kdissect.protocol.specs import FieldSpec, MessageSpec
from kdissect.protocol.structures import ArrayReader, FixedRun, skip_tags

TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
MAX_PARTITION: Final = 1_000_000
MAX_THROTTLE_MS: Final = 3_600_000
SPOKEN_WEIGHT: Final = 20  # of an API that the connection is known to use, against 1
NO_SUCH_VERSION: Final = b"\0\x23"  # error 35
FORGOTTEN_AFTER: Final = 1000  # tries, then names read from implausible candidates are dropped
# Answers to heartbeats and commits repeat again and again, and a try costs 200 layouts.
REMEMBERED_SIZE: Final = 256
REMEMBERED: Final = 4096  # 2 MB at most
# Steps of trying a layout, and for each byte.
LAYOUT_STEPS: Final = 256
LAYOUT_STEPS_A_BYTE: Final = 4


class Candidate(NamedTuple):
    """Versions `first` to `last` of an API; both fit, but those between need not."""

    key: int
    first: int
    last: int

    @property
    def text(self) -> str:
        """Like ``Fetch 4-11``."""
        versions = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{api_name(self.key)} {versions}"


class Layout:
    """One response layout and all versions that share it, as pairs of API key and version.

    What is at a known distance from the start of its body is looked at first, as a decode that
    fails costs a hundred times as much: `throttle_at`, `error_at` and `count_at`, the count of an
    array whose elements have at least `element_size` bytes. NULL: there is none.
    """

    def __init__(self, plan: Plan, has_tags: bool) -> None:
        self.plan = plan
        # Of a body that does not fit, its end is all that is needed.
        self.whole: Reader = plan.reader
        self.min_size: i64 = plan.reader.min_size
        self.fixed_size: i64 = plan.reader.fixed_size
        self.has_tags = has_tags
        self.members: list[tuple[int, int]] = []
        self.throttle_at: i64 = NULL
        self.error_at: i64 = NULL
        self.count_at: i64 = NULL
        self.is_compact = False
        self.element_size: i64 = 0
        reader = plan.reader
        if isinstance(reader, ProjectedStruct):
            self.whole = reader.plain
            self._find_places(plan.shapes, reader.steps)

    def _find_places(self, shapes: list[Shape], steps: list[Reader]) -> None:
        at: i64 = 0
        step = steps[0]
        if isinstance(step, FixedRun):
            if isinstance(step, KeptRun):
                for shape in shapes:
                    if shape.path == "":
                        self.throttle_at = step.place_of(shape.slots[THROTTLE])
                        self.error_at = step.place_of(shape.slots[ERROR])
            at = step.fixed_size
            if len(steps) < 2:
                return
            step = steps[1]
        if isinstance(step, ArrayReader):
            self.count_at = at
            self.is_compact = step.is_compact
            self.element_size = step.element.min_size

    def may_be(self, data: bytes, start: i64) -> bool:
        """Return whether ``data[start:]`` may be such a body that `is_sensible`.

        False is certain.
        """
        size = len(data) - start
        if size < self.min_size or (self.fixed_size != VARIABLE and self.fixed_size != size):
            return False
        if self.throttle_at != NULL:
            throttle_ms = i64(read_i32_be(data, start + self.throttle_at))
            if throttle_ms < 0 or throttle_ms > MAX_THROTTLE_MS:
                return False
        if self.error_at != NULL and (
            i64(read_i16_be(data, start + self.error_at)) not in error_codes()
        ):
            return False
        if self.count_at == NULL:
            return True
        at = start + self.count_at
        if not self.is_compact:
            count = i64(read_i32_be(data, at))
            return count >= -1 and count * self.element_size <= len(data) - at - 4
        count = i64(data[at])
        # A longer count is left to the decode.
        return count >= 128 or (count - 1) * self.element_size <= len(data) - at - 1


class Candidates:
    """Tries all layouts of `plans` on responses."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._layouts: list[Layout] = []
        self._sink = FieldSink(Interner(), {})
        self._tries = 0
        # Work done so far, in steps of `frame_search`.
        self.steps: i64 = 0
        self._remembered: dict[bytes, list[Candidate]] = {}

    def of(self, data: bytes) -> list[Candidate]:
        """Return the candidates for a whole response, header included, in the order of API keys.

        The list must not be changed.
        """
        behind_id = data[4:]
        known = self._remembered.get(behind_id)
        if known is None:
            known = self._tried(data)
            if len(behind_id) <= REMEMBERED_SIZE:
                if len(self._remembered) >= REMEMBERED:
                    self._remembered.clear()
                self._remembered[behind_id] = known
        return known

    def _tried(self, data: bytes) -> list[Candidate]:
        """Like `of`, by trying all layouts."""
        if not self._layouts:
            self._layouts = response_layouts(self._plans)
        self._forget()
        try:
            behind_tags = skip_tags(data, 4)
        except DecodeError:
            behind_tags = -1
        versions: dict[int, list[int]] = {}
        for layout in self._layouts:
            start = behind_tags if layout.has_tags else 4
            if 0 <= start <= len(data) and self._fits(layout, data, start):
                for key, version in layout.members:
                    versions.setdefault(key, []).append(version)
        if data[4:6] == NO_SUCH_VERSION and API_VERSIONS in versions:
            # A broker answers an unknown version in the layout of v0.
            versions[API_VERSIONS].append(APIS[API_VERSIONS].highest)
        return [Candidate(key, min(found), max(found)) for key, found in sorted(versions.items())]

    def _fits(self, layout: Layout, data: bytes, start: i64) -> bool:
        if not layout.may_be(data, start):
            return False
        self.steps += LAYOUT_STEPS + LAYOUT_STEPS_A_BYTE * len(data)
        if layout.whole.end_of(data, start) != len(data):
            return False
        self._sink.begin()
        try:
            if layout.plan.run(data, start, self._sink) != len(data):
                return False
        except DecodeError:
            return False
        return is_sensible(self._sink)

    def _forget(self) -> None:
        self._tries += 1
        if self._tries % FORGOTTEN_AFTER == 0:
            self._sink = FieldSink(Interner(), {})


@cache
def response_layouts(plans: Plans) -> list[Layout]:
    """All distinct response layouts; the list must not be changed."""
    found: dict[object, Layout] = {}
    for key, api in APIS.items():
        spec = api.definition().layouts["response"]
        for version in range(api.lowest, api.highest + 1):
            has_tags = response_header_version(key, version) == 1
            shape = (has_tags, layout_shape(spec, version))
            if shape not in found:
                found[shape] = Layout(plans.get(key, version, True), has_tags)
            found[shape].members.append((key, version))
    return list(found.values())


def layout_shape(spec: MessageSpec, version: int) -> object:
    """A value that is equal for layouts that are the same on the wire and in meaning."""
    return tuple(field_shape(field, version) for field in spec.fields if version in field.versions)


def field_shape(field: FieldSpec, version: int) -> object:
    """Like `layout_shape`, for a field: error codes are checked, so they are not int16."""
    inside = tuple(field_shape(one, version) for one in field.fields if version in one.versions)
    kind = "error" if field.name.endswith("ErrorCode") else field.type if not inside else ""
    nullable = bool(inside) and version in field.nullable
    tag = field.tag if version in field.tagged else -1
    return kind, field.is_array, nullable, tag, field.is_inflexible, inside


def is_sensible(sink: FieldSink) -> bool:
    """Return whether a broker may have sent the decoded values."""
    codes = error_codes()
    if sink.top_error != NULL and sink.top_error not in codes:
        return False
    if any(error.code not in codes for error in sink.errors):
        return False
    if sink.throttle_ms != NULL and not 0 <= sink.throttle_ms <= MAX_THROTTLE_MS:
        return False
    partitions = sink.take_partitions()
    for partition in partitions.rows() if partitions is not None else []:
        if partition.partition != NULL and not 0 <= partition.partition <= MAX_PARTITION:
            return False
        if partition.topic and not TOPIC.fullmatch(partition.topic):
            return False
    return True


def weighed(candidates: list[Candidate], state: ConnectionState) -> tuple[list[Candidate], int]:
    """Candidates sorted by likelihood, and the likelihood of the first, in percent."""
    weights = {one: SPOKEN_WEIGHT if has_spoken(state, one.key) else 1 for one in candidates}
    order = sorted(candidates, key=lambda one: -weights[one])
    if not order:
        return [], 0
    return order, 100 * weights[order[0]] // sum(weights.values())
