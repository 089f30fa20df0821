"""``kdissect protocol``: supported parts of Kafka's protocol."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from kdissect.cli import options
from kdissect.cli.completing import api_names
from kdissect.cli.destination import destination
from kdissect.cli.help import Choice, Command
from kdissect.cli.output import chosen_format, make_writer
from kdissect.cli.program import ANSWERED
from kdissect.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from kdissect.messages.old_protocols import Field
    from kdissect.protocol.apis import ApiKey
    from kdissect.protocol.specs import Definition, FieldSpec, MessageSpec


@click.command(
    "protocol",
    cls=Command,
    short_help="The supported APIs and versions.",
    epilog=options.examples(
        "kdissect protocol                 all APIs",
        "kdissect protocol Fetch           one API in all its versions",
        "kdissect protocol Fetch 12        the layout of one version",
        "kdissect protocol --format csv",
        "kdissect protocol --protocol 0.7  messages before 0.8",
    ),
)
@click.argument("api", required=False, shell_complete=api_names)
@click.argument("version", type=click.IntRange(0), required=False)
@options.output(
    options.FORMATS, "Format of the list of all APIs.  [default: table, or by the extension of -o]"
)
@click.option(
    "--protocol",
    type=Choice(options.PROTOCOLS[1:]),
    default="kafka",
    show_default=True,
    help="A protocol before Kafka 0.8 has no versions.",
)
def command(
    api: str | None,
    version: int | None,
    format_: str | None,
    path: Path | None,
    force: bool,
    protocol: str,
) -> int:
    """Show the supported protocol: all APIs, one API, or the layout of one VERSION of it.

    API is a name, a former name or a key. Vendors use the same keys for different APIs: those have
    a name in tables only where ApiVersions identifies the vendor of the broker.
    """
    if (format_ or path) and (api is not None or protocol != "kafka"):
        raise click.UsageError("--format and -o are for the list of all APIs")
    if protocol != "kafka":
        if version is not None:
            raise click.UsageError(f"APIs of {protocol} have no versions")
        print_old(protocol, api)
        return ANSWERED
    if api is None:
        format_ = chosen_format(format_, path) if path else format_ or "table"
        with destination(path, force) as file:
            print_coverage(format_, file)
        if format_ == "table":
            others = ", ".join(options.PROTOCOLS[2:])
            click.echo(f"before 0.8: kdissect protocol --protocol 0.7 ({others})", err=True)
        return ANSWERED
    from kdissect.errors import InvalidArgument, UnknownApi
    from kdissect.protocol.apis import find_api

    try:
        key = find_api(api)
    except UnknownApi:
        vendors = list(vendor_lines(api))
        if not vendors:
            raise InvalidArgument(unknown_api(api)) from None
        for line in vendors:
            click.echo(line)
        return ANSWERED
    lines = api_lines(key) if version is None else version_lines(key, version)
    for line in lines:
        click.echo(line)
    return ANSWERED


def print_coverage(format_: str, file: IO[bytes]) -> None:
    """Print a row for each API, including those added by vendors."""
    import pyarrow as pa

    from kdissect.protocol.apis import APIS

    rows: list[dict[str, Any]] = [
        {
            "key": api.key,
            "name": api.name,
            "vendor": None,
            "versions": f"{api.lowest}-{api.highest}",
            "first_release": first_release(api, api.lowest),
            "newest_since": first_release(api, api.highest),
            "flexible_from": api.first_flexible if api.first_flexible >= 0 else None,
            "headers": header_versions(api),
            "unstable": api.definition().unstable_versions() or None,
            "listeners": " ".join(api.listeners),
            "former_names": " ".join(api.former_names) or None,
        }
        for api in APIS.values()
    ]
    for vendor, key, name in vendor_apis():
        rows.append(dict.fromkeys(rows[0]) | {"key": key, "name": name, "vendor": vendor})
    writer = make_writer(format_, file)
    writer.write(pa.RecordBatch.from_pylist(rows))
    writer.close()


def unknown_api(api: str) -> str:
    """Error text for a name that no API has."""
    from kdissect.protocol.apis import APIS

    names = [one.name for one in APIS.values()] + [name for _, _, name in vendor_apis()]
    return f"no API {api!r}; {did_you_mean(api, names)}all are listed by: kdissect protocol"


def vendor_apis() -> Iterator[tuple[str, int, str]]:
    """Vendor, key and name of the APIs that vendors add."""
    from kdissect.protocol.apis import VENDOR_APIS, VENDORS, vendor_api_name

    for vendor, apis in VENDOR_APIS.items():
        for key in apis:
            yield VENDORS[vendor], key, vendor_api_name(vendor, key)


def vendor_lines(api: str) -> Iterator[str]:
    """The lines of vendor APIs with this key, or this name."""
    for vendor, key, name in vendor_apis():
        if api == str(key) or api.lower() == name.lower():
            yield f"{name} (API key {key} of {vendor}); no layout is known"


def first_release(api: "ApiKey", version: int) -> str | None:
    """The first release that supported a version, as Kafka writes it."""
    release = api.definition().releases.get(version)
    return release.first if release else None


def header_versions(api: "ApiKey") -> str:
    """The versions of request and response headers over all API versions: ``1-2/0-1``."""
    from kdissect.protocol.apis import request_header_version, response_header_version

    versions = range(api.lowest, api.highest + 1)
    texts = []
    for header_version in (request_header_version, response_header_version):
        first = header_version(api.key, versions[0])
        last = header_version(api.key, versions[-1])
        texts.append(f"{first}" if first == last else f"{first}-{last}")
    return "/".join(texts)


def print_old(protocol: str, api: str | None) -> None:
    """Print the APIs of a protocol before 0.8, or the fields of one of them."""
    from kdissect.messages.old_protocols import OLD_APIS, find_old_api, find_protocol

    number = find_protocol(protocol)
    known = OLD_APIS[number].values() if api is None else [find_old_api(number, api)]
    blank = ""
    for one in known:
        click.echo(f"{blank}{one.name} (key {one.key})")
        blank = "\n"
        for role, fields in (("request", one.request), ("response", one.response)):
            click.echo(f"\n{role}{'' if fields else ': none'}")
            for line in _old_field_lines(fields, 1):
                click.echo(line)


def _old_field_lines(fields: "tuple[Field, ...]", depth: int) -> Iterator[str]:
    for field in fields:
        type_name = field.type or "struct"
        notes = ""
        if field.count_type == "end":
            notes = "up to the end of the frame"
        elif field.count_type:
            notes = f"counted by an {field.count_type}"
        if field.type == "message_set":
            sizes = {"": "no size is stated", "end": "up to the end of the frame"}
            notes = sizes.get(field.size, f"of {field.size}")
            if field.size_ahead:
                notes += f" - {field.size_ahead}"
        if field.count_type:
            type_name = f"[{type_name}]"
        yield f"{'  ' * depth + field.name:40} {type_name:28} {notes}".rstrip()
        yield from _old_field_lines(field.fields, depth + 1)


def api_lines(api: "ApiKey") -> Iterator[str]:
    """One API: the release of each version, and every field with its versions."""
    from kdissect.protocol.specs import format_versions

    definition = api.definition()
    yield f"{api.name} (API key {api.key})"
    yield f"versions {api.lowest}-{api.highest}; {_flexible(api)}"
    if api.former_names:
        yield f"formerly {', '.join(api.former_names)}"
    if definition.deprecated:
        yield f"deprecated {format_versions(definition.deprecated, api.highest)}"
    yield f"listeners: {', '.join(api.listeners)}"
    for version, release in sorted(definition.releases.items()):
        until = f" to {release.last}" if release.last else ""
        unstable = definition.unstable_in(version)
        note = f"; unstable in {unstable}" if unstable else ""
        yield f"  version {version:<3} Kafka {release.first}{until}{note}"
    for role, message in definition.layouts.items():
        yield from ("", role)
        yield from _field_lines(message.fields, message, definition, None, 1)
    for role, message in definition.variants:
        in_releases = f" in Kafka {', '.join(message.releases)}"
        if message.is_foreign:
            in_releases = f" of no Kafka release: {message.releases[0]}"
        versions = format_versions(message.versions, api.highest)
        yield from ("", f"variant of {role} {versions}{in_releases}")
        yield from _field_lines(message.fields, message, definition, None, 1)


def version_lines(api: "ApiKey", version: int) -> Iterator[str]:
    """The layout of one version, both bodies, in wire order."""
    from kdissect.protocol.apis import is_flexible, request_header_version, response_header_version

    if not api.knows(version):
        raise click.UsageError(f"{api.name} has versions {api.lowest}-{api.highest}, not {version}")
    definition = api.definition()
    flexible = "flexible" if is_flexible(api.key, version) else "not flexible"
    yield f"{api.name} (API key {api.key}) version {version}, {flexible}"
    unstable = definition.unstable_in(version)
    if unstable:
        yield f"unstable in Kafka {unstable}: offered only with unstable.api.versions.enable"
    headers = {
        "request": request_header_version(api.key, version),
        "response": response_header_version(api.key, version),
    }
    for role, message in definition.layouts.items():
        yield from ("", f"{role} (header v{headers[role]})" if role in headers else role)
        yield from _field_lines(message.fields, message, definition, version, 1)


def _flexible(api: "ApiKey") -> str:
    return f"flexible from {api.first_flexible}" if api.first_flexible >= 0 else "never flexible"


def _field_lines(
    fields: "tuple[FieldSpec, ...]",
    message: "MessageSpec",
    definition: "Definition",
    version: int | None,
    depth: int,
) -> Iterator[str]:
    """The fields of `version`, tagged ones last as on the wire; all with their versions if None."""
    here = [field for field in fields if version is None or version in field.versions]
    if version is not None:
        here.sort(key=lambda field: (version in field.tagged, field.tag))
    for field in here:
        yield _field_line(field, message, version, depth)
        yield from _field_lines(field.fields, message, definition, version, depth + 1)


def _field_line(field: "FieldSpec", message: "MessageSpec", version: int | None, depth: int) -> str:
    from kdissect.protocol.specs import format_versions, snake_case

    type_name = f"[{field.type}]" if field.is_array else field.type
    newest = max(message.versions)
    notes = []
    if version is None:
        if field.versions != message.versions:
            notes.append(f"in {format_versions(field.versions, newest)}")
        if field.nullable:
            all_null = field.nullable == field.versions
            when = "" if all_null else f" in {format_versions(field.nullable, newest)}"
            notes.append(f"may be null{when}")
    elif version in field.nullable:
        notes.append("may be null")
    if field.tag >= 0 and (version is None or version in field.tagged):
        notes.append(f"tag {field.tag}")
    if field.default:
        notes.append(f"default {field.default}")
    left = f"{'  ' * depth}{snake_case(field.name)}"
    return f"{left:40} {type_name:28} {', '.join(notes)}".rstrip()
