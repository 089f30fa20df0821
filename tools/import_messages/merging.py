"""Joins the fields of two releases' layouts so that each version keeps its own wire order."""

from kdissect.protocol.specs import FieldSpec, Versions

Fields = tuple[FieldSpec, ...]


def restrict(fields: Fields, versions: Versions) -> Fields:
    """Fields restricted to `versions`; fields in none of them are removed."""
    kept = []
    for field in fields:
        if field.versions & versions:
            kept.append(
                field._replace(
                    versions=field.versions & versions,
                    nullable=field.nullable & versions,
                    tagged=field.tagged & versions,
                    fields=restrict(field.fields, versions),
                )
            )
    return tuple(kept)


def merge_fields(older: Fields, newer: Fields) -> Fields:
    """Fields of disjoint versions in one order that holds for both.

    Fields at corresponding places of both sides become one; between two such places the older
    fields come first.
    """
    merged: list[FieldSpec] = []
    i = j = 0
    for at_older, at_newer in matches(older, newer):
        merged += older[i:at_older] + newer[j:at_newer]
        merged.append(merge_field(older[at_older], newer[at_newer]))
        i, j = at_older + 1, at_newer + 1
    return (*merged, *older[i:], *newer[j:])


def merge_field(older: FieldSpec, newer: FieldSpec) -> FieldSpec:
    """One field of both version sets; the newer one's default and entity are kept."""
    return newer._replace(
        versions=older.versions | newer.versions,
        nullable=older.nullable | newer.nullable,
        tagged=older.tagged | newer.tagged,
        tag=max(older.tag, newer.tag),
        fields=merge_fields(older.fields, newer.fields),
    )


def matches(older: Fields, newer: Fields) -> list[tuple[int, int]]:
    """A longest common subsequence of the fields, as pairs of positions."""
    width = len(newer) + 1
    longest = [[0] * width for _ in range(len(older) + 1)]
    for i in range(len(older) - 1, -1, -1):
        for j in range(len(newer) - 1, -1, -1):
            if is_same_field(older[i], newer[j]):
                longest[i][j] = longest[i + 1][j + 1] + 1
            else:
                longest[i][j] = max(longest[i + 1][j], longest[i][j + 1])
    pairs = []
    i = j = 0
    while i < len(older) and j < len(newer):
        if is_same_field(older[i], newer[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def is_same_field(older: FieldSpec, newer: FieldSpec) -> bool:
    """Return whether two fields can share a line: name, shape, tag and length form agree."""
    same_type = older.type == newer.type or (older.is_struct and newer.is_struct)
    return (
        older.name == newer.name
        and same_type
        and older.is_array == newer.is_array
        and older.tag == newer.tag
        and older.is_inflexible == newer.is_inflexible
    )


def wire_form(field: FieldSpec) -> tuple[object, ...]:
    """Properties that determine the bytes of a field, without the fields of a struct."""
    may_be_absent = field.is_struct and not field.is_array and field.nullable
    type_name = "" if field.is_struct else field.type
    return field.name, type_name, field.is_array, field.tag, field.versions, may_be_absent
