"""Message definitions: the notation of the files in schema/, read into trees of specs.

A file holds blocks. Indentation is two spaces a level; `#` starts a comment line.

    api 12 Heartbeat                     kind (api, header, metadata, data, ...), key if any, name
      versions 0-4                       every version that ever shipped
      flexible 4+                        absent: never flexible
      deprecated 0                       also: listeners, former, unstable, releases
      request                            an api has request and response, any other kind `layout`
        GroupId string groupId           name, type, entity
        GroupInstanceId string? 3+       `?`: may be null; versions when not those of the parent
        Members [Member] 1-3             an array of structs, whose fields are indented
          MemberId string
          Tags [string]?2+ 1-3 tag 0     null from version 2 on; in the tag section of its struct
          Rack string 2+ = none          default, absent when 0, false, empty or zero uuid
      response
        ErrorCode int16
      variant request 0 in 3.5 3.6       other bytes under the same version, in these releases
        GroupId string

Types are those of `PRIMITIVES` or the name of a struct. Versions are `3`, `0-4`, `3+` (to the
newest) or several of these with commas. `inflexible`: the old length form also in flexible
versions. In a `variant` line `flexible` says that its versions are flexible and `unstable` that
its releases offered it only with unstable versions enabled.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import SchemaError

Versions = frozenset[int]

SCHEMA_DIRECTORY: Final = Path(__file__).parent / "schema"
NO_VERSIONS: Final[Versions] = frozenset()
FIXED_SIZES: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "float64": 8, "uuid": 16,
}  # fmt: skip
PRIMITIVES: Final = frozenset(FIXED_SIZES) | {"string", "bytes", "records"}
ENTITIES: Final = frozenset({"brokerId", "groupId", "producerId", "topicName", "transactionalId"})
ROLES: Final = frozenset({"request", "response", "layout"})
MAX_VERSION: Final = 255


class FieldSpec(NamedTuple):
    """One field in all its versions; `type` is a primitive or the struct's name, of the element.

    `tag` is -1 when it is never in the tag section; `default` is "" for the type's own zero.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tagged: Versions = NO_VERSIONS
    tag: int = -1
    entity: str = ""
    default: str = ""
    is_inflexible: bool = False
    fields: tuple["FieldSpec", ...] = ()

    @property
    def is_struct(self) -> bool:
        """Whether the field, or an element of it, is a struct."""
        return self.type not in PRIMITIVES

    @property
    def full_type(self) -> str:
        """The type as upstream writes it: ``[]int32`` for an array."""
        return f"[]{self.type}" if self.is_array else self.type


class MessageSpec(NamedTuple):
    """One message body in all its versions; `releases` only for a variant."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[FieldSpec, ...]
    releases: tuple[str, ...] = ()
    is_unstable: bool = False


class Release(NamedTuple):
    """The releases that spoke one version: `last` is "" when the newest known one does."""

    first: str
    last: str
    unstable_in: tuple[str, ...] = ()


class Definition(NamedTuple):
    """One block of a schema file; `layouts` by role: request and response, or layout."""

    kind: str
    key: int
    name: str
    versions: Versions
    flexible: Versions
    deprecated: Versions
    listeners: tuple[str, ...]
    former_names: tuple[str, ...]
    is_latest_unstable: bool
    releases: dict[int, Release]
    layouts: dict[str, MessageSpec]
    variants: tuple[tuple[str, MessageSpec], ...]


class Line(NamedTuple):
    """A line of a schema file with the lines indented under it."""

    number: int
    words: list[str]
    children: list["Line"]


def snake_case(name: str) -> str:
    """Kafka's own rule: ``_`` before a capital that does not follow a capital.

    >>> snake_case("ThrottleTimeMs"), snake_case("KRaftVersion"), snake_case("Enable2Pc")
    ('throttle_time_ms', 'kraft_version', 'enable2_pc')
    """
    letters = []
    after_capital = True
    for letter in name:
        if letter.isupper() and not after_capital:
            letters.append("_")
        letters.append(letter.lower())
        after_capital = letter.isupper()
    return "".join(letters)


def parse_versions(text: str, newest: int) -> Versions:
    """The versions of ``0-4``, ``3+`` (up to `newest`), ``7``, ``none`` or several with commas.

    >>> sorted(parse_versions("0-1,5+", 6))
    [0, 1, 5, 6]
    """
    if text in ("none", ""):
        return NO_VERSIONS
    versions: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            if first.endswith("+"):
                versions.update(range(int(first[:-1]), newest + 1))
            else:
                versions.update(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise SchemaError(f"not a range of versions: {text!r}") from None
    return frozenset(versions)


def format_versions(versions: Iterable[int], newest: int) -> str:
    """The text of `versions`, as `parse_versions` reads it; ``none`` when there are none.

    >>> format_versions({0, 1, 5, 6}, 6), format_versions({3}, 6)
    ('0-1,5+', '3')
    """
    ranges: list[list[int]] = []
    for version in sorted(versions):
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    texts = []
    for first, last in ranges:
        if last == newest and last > 0:
            texts.append(f"{first}+")
        else:
            texts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(texts) or "none"


def read_lines(text: str) -> list[Line]:
    """The lines of a schema file as a forest."""
    top: list[Line] = []
    open_at = [top]
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.lstrip(" ")
        if not stripped or stripped[0] == "#":
            continue
        depth, odd = divmod(len(raw) - len(stripped), 2)
        if odd or depth >= len(open_at):
            raise SchemaError(f"line {number}: wrong indentation: {raw!r}")
        line = Line(number, stripped.split(), [])
        del open_at[depth + 1 :]
        open_at[depth].append(line)
        open_at.append(line.children)
    return top


def read_definitions(text: str) -> list[Definition]:
    """All blocks of the text of a schema file; SchemaError says the line that is wrong."""
    return [_read_definition(line) for line in read_lines(text)]


@cache
def load_file(name: str) -> dict[str, Definition]:
    """The definitions of one file of schema/, by name; `name` is like ``apis/Fetch``."""
    path = SCHEMA_DIRECTORY / f"{name}.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"cannot read schema file {name}: {error.strerror}") from error
    try:
        return {definition.name: definition for definition in read_definitions(text)}
    except SchemaError as error:
        raise SchemaError(f"schema file {name}: {error}") from None


def read_index(name: str) -> Iterator[list[str]]:
    """The rows of a tab-separated file of schema/ without its header line."""
    lines = (SCHEMA_DIRECTORY / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        yield line.split("\t")


def _read_definition(line: Line) -> Definition:
    has_key = len(line.words) == 3
    if len(line.words) not in (2, 3) or (has_key and not line.words[1].isdigit()):
        raise SchemaError(f"line {line.number}: expected a kind, a key if any, and a name")
    attributes: dict[str, list[str]] = {}
    bodies: list[Line] = []
    for child in line.children:
        if child.words[0] in ROLES or child.words[0] == "variant":
            bodies.append(child)
        else:
            attributes[child.words[0]] = child.words[1:]
    name = line.words[-1]
    versions = parse_versions(_one(attributes, "versions", "", line), MAX_VERSION)
    newest = max(versions, default=-1)
    flexible = parse_versions(_one(attributes, "flexible", "none", line), newest)
    layouts: dict[str, MessageSpec] = {}
    variants: list[tuple[str, MessageSpec]] = []
    for body in bodies:
        if body.words[0] == "variant":
            variants.append(_read_variant(name, body))
        else:
            role = body.words[0]
            fields = _read_fields(body.children, versions, newest)
            layouts[role] = MessageSpec(message_name(name, role), versions, flexible, fields)
    return Definition(
        kind=line.words[0],
        key=int(line.words[1]) if has_key else -1,
        name=name,
        versions=versions,
        flexible=flexible,
        deprecated=parse_versions(_one(attributes, "deprecated", "none", line), newest),
        listeners=tuple(attributes.get("listeners", ())),
        former_names=tuple(attributes.get("former", ())),
        is_latest_unstable="unstable" in attributes,
        releases=_read_releases(attributes.get("releases", []), line),
        layouts=layouts,
        variants=tuple(variants),
    )


def message_name(name: str, role: str) -> str:
    """Upstream's name of one layout of a definition: ``Fetch`` + request = ``FetchRequest``."""
    return name if role == "layout" else name + role.capitalize()


def _one(attributes: dict[str, list[str]], name: str, default: str, line: Line) -> str:
    words = attributes.get(name, [default])
    if len(words) != 1:
        raise SchemaError(f"line {line.number}: {name} of {line.words[-1]} is one word")
    return words[0]


def _read_variant(name: str, line: Line) -> tuple[str, MessageSpec]:
    words = line.words
    if len(words) < 5 or words[1] not in ROLES or "in" not in words:
        raise SchemaError(f"line {line.number}: expected: variant ROLE VERSIONS in RELEASE...")
    versions = parse_versions(words[2], MAX_VERSION)
    releases = tuple(words[words.index("in") + 1 :])
    return words[1], MessageSpec(
        message_name(name, words[1]),
        versions,
        versions if "flexible" in words else NO_VERSIONS,
        _read_fields(line.children, versions, max(versions, default=-1)),
        releases,
        "unstable" in words,
    )


def _read_releases(words: list[str], line: Line) -> dict[int, Release]:
    releases: dict[int, Release] = {}
    for item in " ".join(words).split(", ") if words else []:
        version, _, rest = item.partition(" ")
        span, _, unstable = rest.partition(" unstable ")
        first, dash, last = span.partition("-")
        if not version.isdigit() or (not dash and not span.endswith("+")):
            raise SchemaError(f"line {line.number}: releases {item!r} of {line.words[-1]}")
        releases[int(version)] = Release(first.rstrip("+"), last, tuple(unstable.split()))
    return releases


def _read_fields(lines: list[Line], parent: Versions, newest: int) -> tuple[FieldSpec, ...]:
    return tuple([_read_field(line, parent, newest) for line in lines])


def _read_field(line: Line, parent: Versions, newest: int) -> FieldSpec:
    words = line.words
    if len(words) < 2:
        raise SchemaError(f"line {line.number}: a field needs a name and a type")
    type_name, question, null_text = words[1].partition("?")
    is_array = type_name[0] == "["
    if is_array:
        type_name = type_name[1:-1]
    versions, tag, entity, default, is_inflexible = parent, -1, "", "", False
    position = 2
    while position < len(words):
        word = words[position]
        if word == "=":
            default = " ".join(words[position + 1 :])
            break
        if word == "tag":
            tag = int(words[position + 1])
            position += 1
        elif word == "inflexible":
            is_inflexible = True
        elif word in ENTITIES:
            entity = word
        elif word[0].isdigit():
            versions = parse_versions(word, newest) & parent
        else:
            raise SchemaError(f"line {line.number}: what is {word!r}?")
        position += 1
    nullable = NO_VERSIONS
    if question:
        nullable = parse_versions(null_text, newest) & versions if null_text else versions
    fields = _read_fields(line.children, versions, newest)
    if fields and type_name in PRIMITIVES:
        raise SchemaError(f"line {line.number}: {type_name} has no fields")
    return FieldSpec(
        words[0], type_name, is_array, versions, nullable,
        versions if tag >= 0 else NO_VERSIONS, tag, entity, default, is_inflexible, fields,
    )  # fmt: skip
