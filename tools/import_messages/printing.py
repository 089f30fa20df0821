"""Definitions → the notation that `kdissect.protocol.specs` reads."""

from collections.abc import Iterable, Iterator

from kdissect.protocol.specs import (
    Definition,
    FieldSpec,
    MessageSpec,
    Release,
    Versions,
    format_versions,
)

ROLE_ORDER = ("request", "response", "layout")


def print_definition(definition: Definition) -> str:
    """One block, ending with a newline."""
    return "\n".join(_definition_lines(definition)) + "\n"


def _definition_lines(definition: Definition) -> Iterator[str]:
    newest = max(definition.versions, default=-1)
    key = [str(definition.key)] if definition.key >= 0 else []
    yield " ".join([definition.kind, *key, definition.name])
    yield f"  versions {_closed(definition.versions)}"
    if definition.flexible:
        yield f"  flexible {format_versions(definition.flexible, newest)}"
    if definition.deprecated:
        yield f"  deprecated {_closed(definition.deprecated)}"
    if definition.listeners:
        yield f"  listeners {' '.join(definition.listeners)}"
    if definition.former_names:
        yield f"  former {' '.join(definition.former_names)}"
    if definition.is_latest_unstable:
        yield "  unstable"
    if definition.releases:
        yield f"  releases {_releases(definition.releases)}"
    for role in ROLE_ORDER:
        if role in definition.layouts:
            yield f"  {role}"
            yield from _field_lines(definition.layouts[role].fields, definition.versions, newest, 2)
    for role, variant in definition.variants:
        yield from _variant_lines(role, variant)


def _variant_lines(role: str, variant: MessageSpec) -> Iterator[str]:
    words = [f"  variant {role} {_closed(variant.versions)}"]
    words += ["flexible"] * bool(variant.flexible) + ["unstable"] * variant.is_unstable
    yield " ".join([*words, "by" if variant.is_foreign else "in", *variant.releases])
    yield from _field_lines(variant.fields, variant.versions, max(variant.versions), 2)


def _field_lines(
    fields: Iterable[FieldSpec], parent: Versions, newest: int, depth: int
) -> Iterator[str]:
    for field in fields:
        yield "  " * depth + _field(field, parent, newest)
        yield from _field_lines(field.fields, field.versions, newest, depth + 1)


def _field(field: FieldSpec, parent: Versions, newest: int) -> str:
    type_text = f"[{field.type}]" if field.is_array else field.type
    if field.nullable == field.versions:
        type_text += "?"
    elif field.nullable:
        type_text += f"?{format_versions(field.nullable, newest)}"
    words = [field.name, type_text]
    if field.versions != parent:
        words.append(format_versions(field.versions, newest))
    if field.tag >= 0:
        words += ["tag", str(field.tag)]
    if field.is_inflexible:
        words.append("inflexible")
    if field.entity:
        words.append(field.entity)
    if field.default:
        words += ["=", field.default]
    return " ".join(words)


def _closed(versions: Versions) -> str:
    return format_versions(versions, -1)


def _releases(releases: dict[int, Release]) -> str:
    texts = []
    for version, release in sorted(releases.items()):
        span = f"{release.first}-{release.last}" if release.last else f"{release.first}+"
        unstable = " ".join(["", "unstable", *release.unstable_in]) if release.unstable_in else ""
        texts.append(f"{version} {span}{unstable}")
    return ", ".join(texts)
