from pathlib import Path

import pytest

from kdissect.protocol.notation import SCHEMA_DIRECTORY, load_file
from kdissect.protocol.specs import FieldSpec, MessageSpec
from tools.import_messages.__main__ import main
from tools.import_messages.definitions import parse_json, to_source
from tools.import_messages.files import Schema

BY_HAND = {
    "configs.tsv", "enum_fields.tsv", "enums.tsv", "error_codes.tsv", "secrets.tsv",
}  # fmt: skip
LICENCE = '// Licensed to nobody.\n// See http://example.org/ "quoted\n'
OLD_REQUEST = (
    LICENCE
    + """
{
  "apiKey": 7, "type": "request", "listeners": ["zkBroker", "broker"],
  "name": "CountRequest", /* both kinds
     of comments */
  // Version 1 adds Limit.
  "validVersions": "0-2", "flexibleVersions": "2+", "deprecatedVersions": "0",
  "fields": [
    { "name": "Things", "type": "[]Thing", "versions": "0+", "about": "see http://x, [y]" },
    { "name": "OldFlag", "type": "bool", "versions": "0-1" },
    { "name": "Limit", "type": "int32", "versions": "1+", "default": "0x10", "ignorable": true },
  ],
  "commonStructs": [
    { "name": "Thing", "versions": "0+", "fields": [
      { "name": "Name", "type": "string", "versions": "0+", "entityType": "topicName",
        "nullableVersions": "1+" },
      { "name": "Ids", "type": "[]int32", "versions": "0+" }
    ]}
  ]
}
{ "left over": "after the closing brace" }
"""
)
RESPONSE = """
{ "apiKey": 7, "type": "response", "name": "CountResponse", "validVersions": "%s",
  "flexibleVersions": "2+", "fields": [
    { "name": "ErrorCode", "type": "int16", "versions": "0+" } ] }
"""
NEW_REQUEST = """
{
  "apiKey": 7, "type": "request", "listeners": ["broker"], "name": "CountRequest",
  "validVersions": "2-3", "flexibleVersions": "2+",
  "fields": [
    { "name": "Things", "type": "[]Item", "versions": "2+", "fields": [
      { "name": "Name", "type": "string", "versions": "2", "entityType": "topicName",
        "nullableVersions": "2+" },
      { "name": "Id", "type": "uuid", "versions": "3+" },
      { "name": "Ids", "type": "[]int32", "versions": "2+" }
    ]},
    { "name": "Limit", "type": "int32", "versions": "2+", "default": "16" },
    { "name": "Rack", "type": "string", "versions": "2+", "taggedVersions": "2+", "tag": 0,
      "nullableVersions": "2+", "default": "null" }
  ]
}
"""
IMPORTED = """\
api 7 Count
  versions 0-2
  flexible 2+
  deprecated 0
  listeners zkBroker broker
  request
    Things [Thing]
      Name string?1+ topicName
      Ids [int32]
    OldFlag bool 0-1
    Limit int32 1+ = 16
  response
    ErrorCode int16
"""
MERGED = """\
api 7 Count
  versions 0-3
  flexible 2+
  deprecated 0
  listeners broker
  releases 3 9.1+
  request
    Things [Item]
      Name string?1-2 0-2 topicName
      Id uuid 3+
      Ids [int32]
    OldFlag bool 0-1
    Limit int32 1+ = 16
    Rack string? 2+ tag 0 = null
  response
    ErrorCode int16
"""


def write(directory: Path, **files: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / f"{name}.json").write_text(text, encoding="utf-8")
    return str(directory)


def old_release(path: Path) -> str:
    return write(path / "old", CountRequest=OLD_REQUEST, CountResponse=RESPONSE % "0-2")


def run(path: Path, *arguments: str) -> int:
    return main([*arguments, "--into", str(path / "schema")])


def count_file(path: Path) -> str:
    return (path / "schema" / "apis" / "Count.txt").read_text(encoding="utf-8")


def test_definitions_are_printed_in_the_notation(tmp_path: Path) -> None:
    assert run(tmp_path, old_release(tmp_path)) == 0
    assert count_file(tmp_path) == IMPORTED
    assert (tmp_path / "schema" / "apis.tsv").read_text() == (
        "key\tname\tversions\tflexible\tlisteners\tformer_names\n"
        "7\tCount\t0-2\t2\tzkBroker,broker\t\n"
    )


def test_a_newer_release_is_merged_and_old_versions_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, old_release(tmp_path))
    newer = write(tmp_path / "new", CountRequest=NEW_REQUEST, CountResponse=RESPONSE % "2-3")
    capsys.readouterr()
    run(tmp_path, newer, "--release", "9.1")
    assert count_file(tmp_path) == MERGED
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [Path(line).name for line in printed.out.splitlines()] == ["apis.tsv", "Count.txt"]


def test_importing_the_same_again_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = old_release(tmp_path)
    newer = write(tmp_path / "new", CountRequest=NEW_REQUEST, CountResponse=RESPONSE % "2-3")
    run(tmp_path, old, newer)
    text = count_file(tmp_path)
    capsys.readouterr()
    for _ in range(2):
        run(tmp_path, newer)
        assert (count_file(tmp_path), capsys.readouterr().out) == (text, "")


def test_an_api_without_versions_in_a_release_stays_as_it_was(tmp_path: Path) -> None:
    run(tmp_path, old_release(tmp_path))
    gone = '{"apiKey": 7, "type": "%s", "name": "Count%s", "validVersions": "none"}'
    texts = {f"Count{role}": gone % (role.lower(), role) for role in ("Request", "Response")}
    run(tmp_path, write(tmp_path / "gone", **texts))
    assert count_file(tmp_path) == IMPORTED


def test_fields_that_changed_places_are_kept_apart(tmp_path: Path) -> None:
    fields = '{"name": "%s", "type": "int32", "versions": "%s"}'
    head = '{"type": "data", "name": "Place", "flexibleVersions": "none", '
    first = (
        f'"validVersions": "0", "fields": [{fields % ("Port", "0")}, {fields % ("Host", "0")}]}}'
    )
    then = f'"validVersions": "1", "fields": [{fields % ("Host", "1")}, {fields % ("Port", "1")}]}}'
    run(
        tmp_path,
        write(tmp_path / "a", Place=head + first),
        write(tmp_path / "b", Place=head + then),
    )
    assert (tmp_path / "schema" / "messages" / "embedded.txt").read_text() == (
        "data Place\n  versions 0-1\n  layout\n"
        "    Port int32 0\n    Host int32\n    Port int32 1+\n"
    )  # fmt: skip


def test_bytes_that_change_under_the_same_version_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = write(tmp_path / "new", CountRequest=NEW_REQUEST, CountResponse=RESPONSE % "2-3")
    run(tmp_path, newer)
    odd = NEW_REQUEST.replace(
        '"type": "int32", "versions": "2+"', '"type": "int64", "versions": "2+"'
    )
    odd = odd.replace('"name": "Rack"', '"name": "Zone"')
    capsys.readouterr()
    run(tmp_path, write(tmp_path / "odd", CountRequest=odd))
    assert capsys.readouterr().err.splitlines() == [
        "CountRequest v2: other bytes than before",
        "CountRequest v2: no tagged field Rack any more",
        "CountRequest v3: other bytes than before",
        "CountRequest v3: no tagged field Rack any more",
    ]


def test_a_message_that_was_renamed_keeps_its_former_name(tmp_path: Path) -> None:
    run(tmp_path, old_release(tmp_path))
    texts = {
        "TallyRequest": OLD_REQUEST.replace(
            '"name": "CountRequest"', '"name": "TallyRequest", "formerNames": ["CountRequest"]'
        ),
        "TallyResponse": (RESPONSE % "0-2").replace("CountResponse", "TallyResponse"),
    }
    run(tmp_path, write(tmp_path / "new", **texts))
    files = [path.name for path in (tmp_path / "schema" / "apis").iterdir()]
    assert files == ["Tally.txt"]
    text = (tmp_path / "schema" / "apis" / "Tally.txt").read_text()
    assert text == IMPORTED.replace("api 7 Count", "api 7 Tally").replace(
        "  request\n", "  former Count\n  request\n"
    )


def test_a_variant_stands_beside_the_layout_of_its_version(tmp_path: Path) -> None:
    run(tmp_path, old_release(tmp_path))
    variant = """{"type": "response", "name": "CountResponse", "validVersions": "2",
      "flexibleVersions": "2", "releases": ["3.5", "3.6"], "unstable": true,
      "fields": [{"name": "Total", "type": "int64", "versions": "2"}]}"""
    for _ in range(2):
        run(tmp_path, write(tmp_path / "variants", CountResponse=variant))
    expected = IMPORTED + "  variant response 2 flexible unstable in 3.5 3.6\n    Total int64\n"
    assert count_file(tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not a JSON object"),
        ("{", "Expecting"),
        ('{"name": "A", "type": "data"}', "validVersions"),
        (RESPONSE % "x", "not a range of versions"),
        ('{"name": "K", "type": "coordinator-key", "validVersions": "0"}', "--category"),
        (OLD_REQUEST.replace("[]Thing", "[]Other"), "no struct Other"),
    ],
)
def test_a_definition_that_makes_no_sense_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    assert run(tmp_path, write(tmp_path / "in", Some=text)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "schema").exists()


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    assert run(tmp_path, str(tmp_path)) == 2


def test_strings_that_look_like_comments_stay() -> None:
    assert parse_json('{"a": "// no", "b": "/* no */", "c": ",]", /* yes */ }') == {
        "a": "// no",
        "b": "/* no */",
        "c": ",]",
    }


def test_the_schema_that_is_shipped_is_printed_as_it_is_read(tmp_path: Path) -> None:
    list(Schema.load(SCHEMA_DIRECTORY).write(tmp_path))
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.*")}
    shipped = {
        path.relative_to(SCHEMA_DIRECTORY): path.read_text()
        for path in SCHEMA_DIRECTORY.rglob("*.*")
        if path.name not in BY_HAND
    }
    assert written == shipped


def as_json(fields: tuple[FieldSpec, ...], spec: MessageSpec) -> list[dict[str, object]]:
    """Fields in upstream's dialect, with the versions that a release would show."""
    return [
        {
            "name": field.name,
            "type": field.full_type,
            "versions": ",".join(map(str, sorted(field.versions))),
            "nullableVersions": ",".join(map(str, sorted(field.nullable))),
            **(
                {"taggedVersions": ",".join(map(str, sorted(field.tagged))), "tag": field.tag}
                if field.tag >= 0
                else {}
            ),
            "default": field.default,
            "entityType": field.entity,
            "flexibleVersions": "none" if field.is_inflexible else "0+",
            **({"fields": as_json(field.fields, spec)} if field.is_struct else {}),
        }
        for field in fields
    ]


def test_every_newer_half_merged_into_the_older_half_is_the_whole() -> None:
    for path in sorted(SCHEMA_DIRECTORY.glob("apis/*.txt")):
        whole = load_file(f"apis/{path.stem}")[path.stem]
        middle = sorted(whole.versions)[len(whole.versions) // 2]
        halves = [
            {v for v in whole.versions if v < middle},
            {v for v in whole.versions if v >= middle},
        ]
        schema = Schema({})
        for half in halves:
            for role, spec in whole.layouts.items():
                source = to_source(
                    {
                        "name": spec.name,
                        "type": role,
                        "apiKey": whole.key,
                        "validVersions": ",".join(map(str, sorted(half))),
                        "flexibleVersions": ",".join(map(str, sorted(whole.flexible & half))),
                        "fields": as_json(spec.fields, spec),
                    }
                )
                assert schema.merge(source) == []
        merged = schema.files[f"apis/{path.stem}"][path.stem].layouts
        assert merged == whole.layouts
