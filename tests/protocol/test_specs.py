import doctest

import pytest

from kdissect.errors import SchemaError
from kdissect.protocol import notation, specs
from kdissect.protocol.apis import APIS
from kdissect.protocol.layouts import build_reader
from kdissect.protocol.notation import read_definitions
from kdissect.protocol.specs import FieldSpec, Release

EXAMPLE = """\
# a comment
api 12 Example
  versions 0-4
  flexible 4+
  deprecated 0-1
  listeners broker controller
  former Sample
  releases 0 0.9.0-3.9, 4 4.0+ unstable 4.0 4.1
  request
    GroupId string groupId
    Members [Member]? 1-3
      Rack string?2+ 2+ tag 0 = a b
  response
    ErrorCode int16
  variant request 0 flexible unstable in 3.5 3.6
    Old int8 = -1
  variant response 1 by odd-brokers
    ErrorCode int16
"""


def versions(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_doctests_hold() -> None:
    assert doctest.testmod(specs).failed == 0


def test_a_block_is_read_as_documented() -> None:
    (definition,) = read_definitions(EXAMPLE)
    request = definition.layouts["request"]
    rack = FieldSpec(
        "Rack", "string", False, versions(2, 3), versions(2, 3), versions(2, 3), 0, "", "a b"
    )
    assert request.name == "ExampleRequest"
    assert request.fields == (
        FieldSpec("GroupId", "string", False, versions(0, 1, 2, 3, 4), entity="groupId"),
        FieldSpec("Members", "Member", True, versions(1, 2, 3), versions(1, 2, 3), fields=(rack,)),
    )
    assert [field.full_type for field in request.fields] == ["string", "[]Member"]
    assert (definition.kind, definition.key, definition.name) == ("api", 12, "Example")
    assert (definition.flexible, definition.deprecated) == (versions(4), versions(0, 1))
    assert definition.listeners == ("broker", "controller")
    assert definition.former_names == ("Sample",)
    assert definition.releases == {
        0: Release("0.9.0", "3.9"),
        4: Release("4.0", "", ("4.0", "4.1")),
    }
    ((role, variant), (foreign_role, foreign)) = definition.variants
    assert (role, variant.versions, variant.flexible) == ("request", versions(0), versions(0))
    assert (variant.releases, variant.is_unstable) == (("3.5", "3.6"), True)
    assert variant.fields == (FieldSpec("Old", "int8", False, versions(0), default="-1"),)
    assert (foreign_role, foreign.versions) == ("response", versions(1))
    assert (foreign.releases, foreign.is_foreign) == (("odd-brokers",), True)
    assert not variant.is_foreign
    told = [definition.unstable_in(version) for version in range(5)]
    assert told == ["", "", "", "", "4.0, 4.1"]
    assert definition.unstable_versions() == "4: 4.0, 4.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("api x Fetch", "line 1: expected a kind"),
        ("data A\n   versions 0", "line 2: wrong indentation"),
        ("data A\n    versions 0", "line 2: wrong indentation"),
        ("data A\n  versions 0 1", "line 1: versions of A is one word"),
        ("data A\n  versions 0-x", "not a range of versions: '0-x'"),
        ("data A\n  versions 0\n  layout\n    B", "line 4: a field needs a name and a type"),
        ("data A\n  versions 0\n  layout\n    B int8 whatever", "line 4: unknown word 'whatever'"),
        ("data A\n  versions 0\n  layout\n    B int8\n      C int8", "line 4: int8 has no fields"),
        ("data A\n  versions 0\n  variant layout 0", "line 3: expected: variant"),
        ("data A\n  versions 0\n  releases 0", "line 1: releases '0' of A"),
    ],
)
def test_a_wrong_line_is_a_schema_error_with_its_number(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_definitions(text)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="cannot read schema file apis/None"):
        notation.load_file("apis/None")


def test_versions_are_read_as_they_are_written() -> None:
    for numbers in ((0,), (0, 1, 2), (0, 2, 3), (5,), (1, 3, 5), ()):
        text = specs.format_versions(numbers, 5)
        assert specs.parse_versions(text, 5) == frozenset(numbers)


def test_every_definition_of_the_schema_has_readers_for_all_its_versions() -> None:
    count = 0
    for path in notation.SCHEMA_DIRECTORY.glob("*/*.txt"):
        name = path.relative_to(notation.SCHEMA_DIRECTORY).with_suffix("").as_posix()
        for definition in notation.load_file(name).values():
            spoken = [*definition.layouts.values(), *(spec for _, spec in definition.variants)]
            for spec in spoken:
                for version in spec.versions:
                    assert build_reader(spec, version).min_size >= 0
                    count += 1
    assert count == 936


def test_indexes_match_the_files() -> None:
    for api in APIS.values():
        definition = api.definition()
        flexible = min(definition.flexible, default=-1)
        assert (api.key, api.name, api.first_flexible) == (
            definition.key,
            definition.name,
            flexible,
        )
        assert frozenset(range(api.lowest, api.highest + 1)) == definition.versions
        assert (api.listeners, api.former_names) == (definition.listeners, definition.former_names)
        assert set(definition.layouts) == {"request", "response"}
    for name, file, kind, key, text, flexible_text, _ in notation.read_index("messages"):
        definition = notation.load_file(f"messages/{file}")[name]
        assert (definition.kind, str(definition.key)) == (kind, key)
        assert specs.parse_versions(text, 255) == definition.versions
        assert flexible_text == str(min(definition.flexible, default="none"))


def test_every_tag_number_is_used_once_in_a_version() -> None:
    def check(fields: tuple[FieldSpec, ...], version: int) -> None:
        present = [field for field in fields if version in field.versions]
        tags = [field.tag for field in present if version in field.tagged]
        names = [field.name for field in present]
        assert len(tags) == len(set(tags))
        assert len(names) == len(set(names))
        for field in present:
            check(field.fields, version)

    for api in APIS.values():
        for spec in api.definition().layouts.values():
            for version in spec.versions:
                check(spec.fields, version)
