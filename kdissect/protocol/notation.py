"""The notation of the files in schema/, read into specs.

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
      variant response 1 by odd-brokers  the same, in no release of Kafka's: one word that names it

Types are those of `specs.PRIMITIVES` or the name of a struct. Versions are `3`, `0-4`, `3+` (to the
newest) or several of these with commas. `inflexible`: the old length form also in flexible
versions. In a `variant` line `flexible` says that its versions are flexible and `unstable` that
its releases offered it only with unstable versions enabled.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from kdissect.errors import SchemaError
from kdissect.protocol.specs import (
    MAX_VERSION,
    NO_VERSIONS,
    PRIMITIVES,
    Definition,
    FieldSpec,
    MessageSpec,
    Release,
    Versions,
    message_name,
    parse_versions,
)

SCHEMA_DIRECTORY: Final = Path(__file__).parent / "schema"
ENTITIES: Final = frozenset({"brokerId", "groupId", "producerId", "topicName", "transactionalId"})
ROLES: Final = frozenset({"request", "response", "layout"})
# Contents cached by `keep_files`, by path in schema/.
_kept: Final[dict[str, str]] = {}


class Line(NamedTuple):
    """A line of a schema file with its indented lines."""

    number: int
    words: list[str]
    children: list["Line"]


def read_lines(text: str) -> list[Line]:
    """Parse the lines of a schema file into a forest."""
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
    """Definitions in the text of a schema file; SchemaError names the invalid line."""
    return [_read_definition(line) for line in read_lines(text)]


@cache
def load_file(name: str) -> dict[str, Definition]:
    """The definitions of one file of schema/, by name; `name` is like ``apis/Fetch``."""
    try:
        text = _text(f"{name}.txt")
    except OSError as error:
        raise SchemaError(f"cannot read schema file {name}: {error.strerror}") from error
    try:
        return {definition.name: definition for definition in read_definitions(text)}
    except SchemaError as error:
        raise SchemaError(f"schema file {name}: {error}") from None


def read_index(name: str) -> Iterator[list[str]]:
    """Rows of a tab-separated file of schema/ without its header line."""
    for line in _text(f"{name}.tsv").splitlines()[1:]:
        yield line.split("\t")


def keep_files() -> None:
    """Read all files of schema/, 500 kB, for a process that cannot read them later."""
    for path in SCHEMA_DIRECTORY.rglob("*.*"):
        _kept[path.relative_to(SCHEMA_DIRECTORY).as_posix()] = path.read_text(encoding="utf-8")


def _text(name: str) -> str:
    kept = _kept.get(name)
    return (SCHEMA_DIRECTORY / name).read_text(encoding="utf-8") if kept is None else kept


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


def _one(attributes: dict[str, list[str]], name: str, default: str, line: Line) -> str:
    words = attributes.get(name, [default])
    if len(words) != 1:
        raise SchemaError(f"line {line.number}: {name} of {line.words[-1]} is one word")
    return words[0]


def _read_variant(name: str, line: Line) -> tuple[str, MessageSpec]:
    words = line.words
    is_foreign = len(words) > 2 and words[-2] == "by"
    if len(words) < 5 or words[1] not in ROLES or not (is_foreign or "in" in words):
        raise SchemaError(
            f"line {line.number}: expected: variant ROLE VERSIONS in RELEASE..., or by NAME"
        )
    versions = parse_versions(words[2], MAX_VERSION)
    releases = (words[-1],) if is_foreign else tuple(words[words.index("in") + 1 :])
    return words[1], MessageSpec(
        message_name(name, words[1]),
        versions,
        versions if "flexible" in words else NO_VERSIONS,
        _read_fields(line.children, versions, max(versions, default=-1)),
        releases,
        "unstable" in words,
        is_foreign,
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
            raise SchemaError(f"line {line.number}: unknown word {word!r}")
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
