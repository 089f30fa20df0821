"""Kafka's JSON message definitions → `Source`s: specs with absolute, non-empty version sets.

Reads the definitions as Kafka ships them (``//`` comments, common structs, ``N+`` ranges, text
after the closing brace) and a dialect with a few more keys: category, formerNames, supportedBy
(version → first and last release), and releases (the file is a variant used by these releases).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kdissect.errors import SchemaError
from kdissect.protocol.specs import (
    MAX_VERSION,
    PRIMITIVES,
    FieldSpec,
    Release,
    Versions,
    parse_versions,
)

STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
STRING_OR_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[\]}])', re.DOTALL)
CURRENT_RELEASE = "current"
MAX_DEPTH = 16

Json = dict[str, Any]
Structs = dict[str, list[Json]]


class Source(NamedTuple):
    """One definition file; `role` is request, response or layout, `releases` of a variant."""

    name: str
    role: str
    kind: str
    key: int
    category: str
    versions: Versions
    flexible: Versions
    deprecated: Versions
    listeners: tuple[str, ...]
    former_names: tuple[str, ...]
    is_latest_unstable: bool
    supported_by: dict[int, Release]
    fields: tuple[FieldSpec, ...]
    variant_releases: tuple[str, ...]
    is_unstable_variant: bool


def read_directory(directory: Path) -> Iterator[Source]:
    """The definitions of all ``*.json`` files of a directory, in the order of their names."""
    paths = sorted(directory.glob("*.json"))
    if not paths:
        raise SchemaError(f"no *.json files in {directory}")
    for path in paths:
        try:
            yield to_source(parse_json(path.read_text(encoding="utf-8")))
        except (SchemaError, ValueError, KeyError) as error:
            raise SchemaError(f"{path}: {error!r}") from error


def parse_json(text: str) -> Json:
    """JSON with comments, trailing commas and anything after its closing brace."""
    text = STRING_OR_COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    text = STRING_OR_TRAILING_COMMA.sub(lambda found: found[0].lstrip(","), text)
    value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    if not isinstance(value, dict):
        raise SchemaError("not a JSON object")
    return value


def to_source(definition: Json) -> Source:
    """The definition with every struct in place and every range turned into versions."""
    versions = parse_versions(definition["validVersions"], MAX_VERSION)
    newest = max(versions, default=-1)
    name, role = split_name(definition["name"], definition["type"])
    structs = collect_structs(definition)
    return Source(
        name=name,
        role=role,
        kind="api" if role != "layout" else definition["type"],
        key=int(definition.get("apiKey", -1)),
        category=definition.get("category", ""),
        versions=versions,
        flexible=parse_versions(definition.get("flexibleVersions", "none"), newest) & versions,
        deprecated=parse_versions(definition.get("deprecatedVersions", "none"), newest) & versions,
        listeners=tuple(definition.get("listeners", ())),
        former_names=tuple(
            split_name(former, definition["type"])[0]
            for former in definition.get("formerNames", ())
        ),
        is_latest_unstable=bool(definition.get("latestVersionUnstable", False)),
        supported_by={
            int(version): to_release(support)
            for version, support in definition.get("supportedBy", {}).items()
        },
        fields=to_fields(definition.get("fields", []), versions, newest, structs, 0),
        variant_releases=tuple(definition.get("releases", ())),
        is_unstable_variant=bool(definition.get("unstable", False)),
    )


def split_name(name: str, kind: str) -> tuple[str, str]:
    """Name and role: ``FetchRequest`` of type request is ``Fetch``, request."""
    if kind in ("request", "response"):
        return re.sub(r"(Request|Response)$", "", name), kind
    return name, "layout"


def to_release(support: Json) -> Release:
    """The releases of one version; the newest release known is written as no last one."""
    last = support["last"]
    unstable = tuple(name for name in support.get("unstableIn", ()) if name != CURRENT_RELEASE)
    return Release(support["first"], "" if last == CURRENT_RELEASE else last, unstable)


def collect_structs(definition: Json) -> Structs:
    """The fields of every struct by name: common ones, and those defined where first used."""
    structs: Structs = {}
    pending: list[Json] = list(definition.get("fields", []))
    for common in definition.get("commonStructs", []):
        structs[common["name"]] = common["fields"]
        pending.extend(common["fields"])
    while pending:
        field = pending.pop(0)
        if field.get("fields"):
            structs.setdefault(field["type"].removeprefix("[]"), field["fields"])
            pending.extend(field["fields"])
    return structs


def to_fields(
    fields: list[Json], parent: Versions, newest: int, structs: Structs, depth: int
) -> tuple[FieldSpec, ...]:
    """The fields that exist in at least one version of the parent."""
    if depth > MAX_DEPTH:
        raise SchemaError("a struct that holds itself")
    specs = [to_field(field, parent, newest, structs, depth) for field in fields]
    return tuple(spec for spec in specs if spec.versions)


def to_field(field: Json, parent: Versions, newest: int, structs: Structs, depth: int) -> FieldSpec:
    """One field; its versions are cut to those of the parent."""
    tagged_text: str = field.get("taggedVersions", "none")
    versions = parse_versions(field.get("versions") or tagged_text, newest) & parent
    tagged = parse_versions(tagged_text, newest) & versions
    type_name = field["type"].removeprefix("[]")
    is_struct = type_name not in PRIMITIVES
    if is_struct and type_name not in structs and not field.get("fields"):
        raise SchemaError(f"{field['name']}: no struct {type_name}")
    if tagged and tagged != versions:
        raise SchemaError(f"{field['name']}: tagged only in some of its versions")
    inner = (field.get("fields") or structs[type_name]) if is_struct else []
    return FieldSpec(
        name=field["name"],
        type=type_name,
        is_array=field["type"].startswith("[]"),
        versions=versions,
        nullable=parse_versions(field.get("nullableVersions", "none"), newest) & versions,
        tagged=tagged,
        tag=int(field["tag"]) if tagged else -1,
        entity=field.get("entityType", ""),
        default=normal_default(field.get("default", ""), type_name),
        is_inflexible=field.get("flexibleVersions") == "none",
        fields=to_fields(inner, versions, newest, structs, depth + 1) if versions else (),
    )


def normal_default(value: object, type_name: str) -> str:
    """The default as one word: integers in decimals, "" for the zero of the type."""
    if value is None or value == "null":
        return "null"
    text = str(value).strip()
    if type_name == "bool":
        return "true" if text.lower() == "true" else ""
    if "int" in type_name and text:
        return str(int(text, 0)) if int(text, 0) else ""
    return text
