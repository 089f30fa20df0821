"""``python -m tools.make_vectors FILE``: random messages of every layout that kio can write.

kio (PyPI) generates its classes from Kafka's definitions on its own, so its bytes prove the schema
and the readers. It is not needed to run the tests: run this in an environment that has kio and
nothing else, once with each release of kio that is wanted, the newest first. Layouts that FILE has
already are left alone; the order of the lines and their content depend on nothing else.

A line is JSON: [kio release, message name, version, bytes in base64, expected values]; bytes among
the values are written as ``hex:00ff``.
"""

import base64
import binascii
import dataclasses
import datetime
import importlib
import importlib.metadata
import io
import json
import random
import sys
import typing
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdissect.protocol.notation import SCHEMA_DIRECTORY, load_file
from kdissect.protocol.specs import FieldSpec, MessageSpec, message_name, snake_case

VECTORS_PER_LAYOUT = 2
NULL_CHANCE = 0.3
LETTERS = "abcxyz-é日"
# What kio shows as None for these is a value on the wire.
NEVER_NULL = ("uuid", "datetime_i64")
NO_UUID = "A" * 22
INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1), "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1), "uint32": (0, (1 << 32) - 1),
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Add the layouts that the file does not have yet."""
    path = Path(arguments[0])
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    vectors = [json.loads(line) for line in lines]
    known = {(name, version) for _, name, version, _, _ in vectors}
    release = importlib.metadata.version("kio")
    specs = specs_by_name()
    for name, version, entity in kio_entities():
        if (specs[name][0].name, version) in known:
            continue
        rng = random.Random(f"{name} {version}")  # noqa: S311 - test data
        for _ in range(VECTORS_PER_LAYOUT):
            instance = make(entity, rng)
            spec = fitting(specs[name], version, instance)
            expected = values_of(instance, spec.fields, version)
            raw = base64.b64encode(write(entity, instance)).decode("ascii")
            vectors.append([release, spec.name, version, raw, expected])
    vectors.sort(key=lambda vector: (vector[1], vector[2]))
    texts = [json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in vectors]
    path.write_text("\n".join([*texts, ""]), encoding="utf-8")
    print(f"{len(vectors)} vectors of {len({(v[1], v[2]) for v in vectors})} layouts in {path}")
    return 0


def specs_by_name() -> dict[str, list[MessageSpec]]:
    """The spec of each message and its variants, by its names of all times."""
    specs: dict[str, list[MessageSpec]] = {}
    for path in sorted(SCHEMA_DIRECTORY.glob("*/*.txt")):
        file = path.relative_to(SCHEMA_DIRECTORY).with_suffix("").as_posix()
        for definition in load_file(file).values():
            for role, spec in definition.layouts.items():
                variants = [
                    variant for its_role, variant in definition.variants if its_role == role
                ]
                for name in (definition.name, *definition.former_names):
                    specs[message_name(name, role)] = [spec, *variants]
    return specs


def kio_entities() -> Iterator[tuple[str, int, Any]]:
    """All top-level message classes of kio with their names and versions."""
    import kio
    from kio.static.constants import EntityType

    schema = Path(kio.__file__).parent / "schema"
    for path in sorted(schema.glob("*/v*/*.py")):
        if path.name == "__init__.py":
            continue
        module = importlib.import_module(
            ".".join(["kio.schema", *path.relative_to(schema).with_suffix("").parts])
        )
        entity: Any
        for entity in vars(module).values():
            is_own = isinstance(entity, type) and entity.__module__ == module.__name__
            if not is_own or not dataclasses.is_dataclass(entity):
                continue
            if entity.__type__ is not EntityType.nested:
                yield entity.__name__, int(path.parent.name[1:]), entity


def make(entity: Any, rng: random.Random) -> Any:
    """A random instance of a kio class."""
    hints = typing.get_type_hints(entity)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        kafka_type = field.metadata.get("kafka_type")
        wanted, is_nullable = without_none(hints[field.name])
        if is_nullable and kafka_type not in NEVER_NULL and rng.random() < NULL_CHANCE:
            values[field.name] = None
        elif typing.get_origin(wanted) is tuple:
            element, _ = without_none(typing.get_args(wanted)[0])
            values[field.name] = tuple(
                make_one(element, kafka_type, rng) for _ in range(rng.choice((0, 1, 1, 2)))
            )
        else:
            values[field.name] = make_one(wanted, kafka_type, rng)
    return entity(**values)


def without_none(hint: Any) -> tuple[Any, bool]:
    """A type hint without its None, and whether it had one."""
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        return next(one for one in arguments if one is not type(None)), True
    return hint, False


def make_one(wanted: Any, kafka_type: str | None, rng: random.Random) -> Any:
    """A random struct or value of a primitive type."""
    if dataclasses.is_dataclass(wanted):
        return make(wanted, rng)
    if kafka_type in INTEGERS:
        low, high = INTEGERS[kafka_type]
        return rng.choice((low, high, rng.randint(-100 if low else 0, 100)))
    if kafka_type == "error_code":
        return rng.choice(list(importlib.import_module("kio.schema.errors").ErrorCode))
    if kafka_type == "bool":
        return rng.random() < 0.5
    if kafka_type == "string":
        return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))
    if kafka_type in ("bytes", "records"):
        return rng.randbytes(rng.randint(0, 6))
    if kafka_type == "uuid":
        return uuid.UUID(int=rng.getrandbits(128) | 1)
    if kafka_type == "float64":
        return rng.randint(-1000, 1000) / 8
    if kafka_type == "timedelta_i32":
        return datetime.timedelta(milliseconds=rng.randint(0, (1 << 31) - 1))
    if kafka_type == "timedelta_i64":
        return datetime.timedelta(milliseconds=rng.randint(0, 1 << 40))
    if kafka_type == "datetime_i64":
        return datetime.datetime.fromtimestamp(rng.randint(10**9, 2 * 10**9), datetime.UTC)
    raise ValueError(f"kio's type {kafka_type} is not known here")


def write(entity: Any, instance: Any) -> bytes:
    """kio's bytes of an instance."""
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(entity)(buffer, instance)
    return buffer.getvalue()


def fitting(specs: list[MessageSpec], version: int, instance: Any) -> MessageSpec:
    """The spec or variant that has as many fields as the instance, at every level."""
    for spec in specs:
        if version in spec.versions and is_alike(instance, spec.fields, version):
            return spec
    raise ValueError(f"no layout of {specs[0].name} v{version} is like kio's")


def is_alike(instance: Any, fields: tuple[FieldSpec, ...], version: int) -> bool:
    """Whether the instance has as many fields as the layout, at every level."""
    present = [field for field in fields if version in field.versions]
    own = dataclasses.fields(instance)
    if len(own) != len(present):
        return False
    for kio_field, field in zip(own, present, strict=True):
        value = getattr(instance, kio_field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(one) and not is_alike(one, field.fields, version):
                return False
    return True


def values_of(instance: Any, fields: tuple[FieldSpec, ...], version: int) -> dict[str, Any]:
    """What kdissect should read; tagged fields at their default are not on the wire."""
    values = {}
    tagged = []
    present = [field for field in fields if version in field.versions]
    for kio_field, field in zip(dataclasses.fields(instance), present, strict=True):
        value = getattr(instance, kio_field.name)
        plain = plain_value(value, field, version)
        if version not in field.tagged:
            values[snake_case(field.name)] = plain
        elif value != kio_field.default:
            tagged.append((field.tag, snake_case(field.name), plain))
    return values | {name: plain for _, name, plain in sorted(tagged, key=lambda item: item[0])}


def plain_value(value: Any, field: FieldSpec, version: int) -> Any:
    """One value as kdissect gives it."""
    if isinstance(value, tuple):
        return [plain_value(one, field, version) for one in value]
    if dataclasses.is_dataclass(value):
        return values_of(value, field.fields, version)
    if value is None:
        return NO_UUID if field.type == "uuid" else None
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode("ascii")[:22]
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return "hex:" + binascii.hexlify(value).decode("ascii")
    return value.value if field.type == "int16" and hasattr(value, "value") else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
