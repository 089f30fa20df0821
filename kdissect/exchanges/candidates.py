"""Candidate APIs of a response whose request was not captured.

A response contains neither its API nor its version, but few layouts end exactly where it ends with
existing error codes, plausible topic names and plausible counts. Layouts that are the same to the
byte can never be distinguished; among the others, APIs that the connection certainly used before
are more likely.
"""

import re
from functools import cache
from typing import Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.exchanges.connection_state import ConnectionState, has_spoken
from kdissect.messages.extracted import FieldSink
from kdissect.messages.interner import Interner
from kdissect.protocol.apis import API_VERSIONS, APIS, api_name, response_header_version
from kdissect.protocol.error_codes import error_codes
from kdissect.protocol.plans import Plan, Plans
from kdissect.protocol.readers import NULL, VARIABLE
from kdissect.protocol.specs import FieldSpec, MessageSpec
from kdissect.protocol.structures import skip_tags

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


class Layout(NamedTuple):
    """One response layout and all versions that share it."""

    plan: Plan
    min_size: int
    fixed_size: int
    has_tags: bool
    members: list[tuple[int, int]]


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

    def _fits(self, layout: Layout, data: bytes, start: int) -> bool:
        size = len(data) - start
        if size < layout.min_size or layout.fixed_size not in (VARIABLE, size):
            return False
        self.steps += LAYOUT_STEPS + LAYOUT_STEPS_A_BYTE * len(data)
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
            plan = plans.get(key, version, True)
            has_tags = response_header_version(key, version) == 1
            shape = (has_tags, layout_shape(spec, version))
            if shape not in found:
                reader = plan.reader
                sizes = int(reader.min_size), int(reader.fixed_size)
                found[shape] = Layout(plan, *sizes, has_tags, [])
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
