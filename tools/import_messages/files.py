"""The schema directory as a whole: loads it, merges definitions into it, writes the changes."""

from collections.abc import Iterator
from pathlib import Path

from kdissect.errors import SchemaError
from kdissect.protocol.notation import read_definitions
from kdissect.protocol.specs import (
    NO_VERSIONS,
    Definition,
    FieldSpec,
    MessageSpec,
    Release,
    format_versions,
    message_name,
)
from tools.import_messages.definitions import Source
from tools.import_messages.merging import merge_fields, restrict, wire_form
from tools.import_messages.printing import ROLE_ORDER, print_definition

CATEGORY_OF_KIND = {"header": "header", "metadata": "kraft-metadata", "data": "embedded"}
API_COLUMNS = "key\tname\tversions\tflexible\tlisteners\tformer_names"
MESSAGE_COLUMNS = "name\tfile\tkind\tkey\tversions\tflexible\tformer_names"


class Schema:
    """All definitions by file (``apis/Fetch``, ``messages/header``) and name."""

    def __init__(self, files: dict[str, dict[str, Definition]]) -> None:
        self.files = files

    @classmethod
    def load(cls, directory: Path) -> "Schema":
        """Schema in the directory; empty if it is empty or absent."""
        files: dict[str, dict[str, Definition]] = {}
        for path in sorted(directory.glob("*/*.txt")):
            definitions = read_definitions(path.read_text(encoding="utf-8"))
            name = path.relative_to(directory).with_suffix("").as_posix()
            files[name] = {definition.name: definition for definition in definitions}
        return cls(files)

    def find(self, name: str, is_api: bool) -> tuple[str, Definition] | None:
        """File and definition of a name, current or former."""
        for former in (False, True):
            for file, definitions in self.files.items():
                if file.startswith("apis/") != is_api:
                    continue
                for definition in definitions.values():
                    names = definition.former_names if former else (definition.name,)
                    if name in names:
                        return file, definition
        return None

    def merge(self, source: Source, category: str = "", release: str = "") -> list[str]:
        """Take `source` in; gives the warnings a reviewer must see."""
        is_api = source.role != "layout"
        found = self.find(source.name, is_api)
        for former in source.former_names:
            found = found or self.find(former, is_api)
        if source.variant_releases:
            if found is None:
                raise SchemaError(f"variant of the unknown message {source.name}")
            self.files[found[0]][found[1].name] = with_variant(found[1], source)
            return []
        if found is None:
            file = f"apis/{source.name}" if is_api else f"messages/{_category(source, category)}"
            known = empty_definition(source)
        else:
            file, known = found
            del self.files[file][known.name]
            if is_api and known.name != source.name:
                file = f"apis/{source.name}"
        merged = merge_definition(known, source, release)
        self.files.setdefault(file, {})[merged.name] = merged
        return list(changes_in_place(known, source))

    def write(self, directory: Path) -> Iterator[Path]:
        """Write the files whose text has changed, and return their paths."""
        texts = {f"{name}.txt": _file_text(blocks) for name, blocks in self.files.items() if blocks}
        texts["apis.tsv"] = self.api_index()
        texts["messages.tsv"] = self.message_index()
        for path in sorted(directory.glob("*/*.txt")):
            if path.relative_to(directory).as_posix() not in texts:
                path.unlink()
                yield path
        for name, text in sorted(texts.items()):
            path = directory / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                yield path

    def api_index(self) -> str:
        """Text of apis.tsv: properties of every API key that do not need its file."""
        apis = [d for blocks in self.files.values() for d in blocks.values() if d.kind == "api"]
        rows = [
            (str(api.key), api.name, format_versions(api.versions, -1), _flexible(api),
             ",".join(api.listeners), ",".join(api.former_names))
            for api in sorted(apis, key=lambda api: api.key)
        ]  # fmt: skip
        return "\n".join([API_COLUMNS, *("\t".join(row) for row in rows), ""])

    def message_index(self) -> str:
        """The text of messages.tsv: the file of every message that is not of an API."""
        rows = [
            (d.name, file.removeprefix("messages/"), d.kind, str(d.key),
             format_versions(d.versions, -1), _flexible(d), ",".join(d.former_names))
            for file, blocks in self.files.items() for d in blocks.values() if d.kind != "api"
        ]  # fmt: skip
        return "\n".join([MESSAGE_COLUMNS, *("\t".join(row) for row in sorted(rows)), ""])


def empty_definition(source: Source) -> Definition:
    """A definition without any versions yet."""
    return Definition(
        source.kind, source.key, source.name, NO_VERSIONS, NO_VERSIONS, NO_VERSIONS, (), (), False,
        {}, {}, (),
    )  # fmt: skip


def merge_definition(known: Definition, source: Source, release: str) -> Definition:
    """`known` with the versions of `source` taken from `source`, the others kept."""
    stays = known.versions - source.versions
    known_layout = known.layouts.get(source.role)
    known_fields = known_layout.fields if known_layout else ()
    # Request and response come one after the other: changes by the first apply to the second.
    versions = known.versions | source.versions
    flexible = (known.flexible - source.versions) | source.flexible
    fields = merge_fields(restrict(known_fields, stays), source.fields)
    layouts = dict(known.layouts)
    layouts[source.role] = MessageSpec(
        message_name(source.name, source.role), versions, flexible, fields
    )
    former = [*known.former_names, *source.former_names]
    if known.name != source.name:
        former.append(known.name)
    return known._replace(
        kind=source.kind,
        key=source.key if source.key >= 0 else known.key,
        name=source.name,
        versions=versions,
        flexible=flexible,
        deprecated=known.deprecated | source.deprecated,
        listeners=source.listeners or known.listeners,
        former_names=tuple(dict.fromkeys(name for name in former if name != source.name)),
        is_latest_unstable=_latest_unstable(known, source),
        releases=_merge_releases(known, source, release),
        layouts={role: layouts[role] for role in ROLE_ORDER if role in layouts},
    )


def with_variant(definition: Definition, source: Source) -> Definition:
    """`definition` with this variant, in place of one of the same role, versions and releases."""
    name = message_name(definition.name, source.role)
    variant = MessageSpec(
        name, source.versions, source.flexible, source.fields, source.variant_releases,
        source.is_unstable_variant,
    )  # fmt: skip
    others = [
        (role, other) for role, other in definition.variants
        if (role, other.versions, other.releases)
        != (source.role, variant.versions, variant.releases)
    ]  # fmt: skip
    variants = sorted(
        [*others, (source.role, variant)],
        key=lambda item: (ROLE_ORDER.index(item[0]), min(item[1].versions), item[1].releases),
    )
    return definition._replace(variants=tuple(variants))


def changes_in_place(known: Definition, source: Source) -> Iterator[str]:
    """A line for each version that differs from the existing schema.

    New tagged fields may join an old version: readers skip those they do not know.
    """
    layout = known.layouts.get(source.role)
    if layout is None:
        return
    for version in sorted(layout.versions & source.versions):
        only = frozenset({version})
        before = restrict(layout.fields, only)
        after = restrict(source.fields, only)
        name = f"{message_name(source.name, source.role)} v{version}"
        is_flexible = version in source.flexible
        if (untagged(before), version in layout.flexible) != (untagged(after), is_flexible):
            yield f"{name}: other bytes than before"
        for path in sorted(tagged_paths(before) - tagged_paths(after)):
            yield f"{name}: no tagged field {path} any more"


def untagged(fields: tuple[FieldSpec, ...]) -> tuple[object, ...]:
    """Properties that determine the bytes of all fields outside of tag sections."""
    return tuple((*wire_form(field), untagged(field.fields)) for field in fields if field.tag < 0)


def tagged_paths(fields: tuple[FieldSpec, ...]) -> set[str]:
    """The paths of all tagged fields."""
    paths = {field.name for field in fields if field.tag >= 0}
    for field in fields:
        paths |= {f"{field.name}.{inner}" for inner in tagged_paths(field.fields)}
    return paths


def _latest_unstable(known: Definition, source: Source) -> bool:
    """Take it from the newest release; an older one, imported later, does not change it."""
    is_older = max(source.versions, default=-1) < max(known.versions, default=-1)
    if source.role == "response" or is_older:
        return known.is_latest_unstable
    return source.is_latest_unstable


def _merge_releases(known: Definition, source: Source, release: str) -> dict[int, Release]:
    releases = dict(known.releases)
    for version, support in source.supported_by.items():
        before = known.releases.get(version)
        unstable = support.unstable_in or (before.unstable_in if before else ())
        releases[version] = support._replace(unstable_in=unstable)
    if release:
        for version in sorted(source.versions - known.versions - releases.keys()):
            releases[version] = Release(release, "")
        if source.is_latest_unstable:
            newest = max(source.versions)
            before = releases.get(newest, Release(release, ""))
            names = dict.fromkeys([*before.unstable_in, release])
            releases[newest] = before._replace(unstable_in=tuple(names))
    return dict(sorted(releases.items()))


def _category(source: Source, category: str) -> str:
    name = source.category or category or CATEGORY_OF_KIND.get(source.kind, "")
    if not name:
        raise SchemaError(f"{source.name} is new: say with --category where it belongs")
    return name


def _flexible(definition: Definition) -> str:
    return str(min(definition.flexible)) if definition.flexible else "none"


def _file_text(blocks: dict[str, Definition]) -> str:
    return "\n".join(print_definition(blocks[name]) for name in sorted(blocks))
