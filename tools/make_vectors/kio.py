"""Vectors written by kio, which generates its classes from Kafka's definitions on its own."""

import base64
import binascii
import dataclasses
import datetime
import importlib
import importlib.metadata
import io
import random
import typing
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kdissect.protocol.specs import FieldSpec, MessageSpec, snake_case
from tools.make_vectors.layouts import specs_by_name
from tools.make_vectors.vectors_file import Vector

VECTORS_PER_LAYOUT = 10
NULL_CHANCE = 0.3
# Few different ones, so that many messages compress well.
EVERYDAY = (0, 1, 2, 5, 77, 100)
TIMES = (0, 1, 30_000, 1 << 30)
LETTERS = "abcxyz-é日"
# Values that kio shows as None for these are not null on the wire.
NEVER_NULL = ("uuid", "datetime_i64")
NO_UUID = "A" * 22
INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1), "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1), "uint32": (0, (1 << 32) - 1),
}  # fmt: skip


def kio_writer() -> str:
    """The writer of the vectors made here."""
    return f"kio {importlib.metadata.version('kio')}"


def kio_vectors(is_known: Callable[[str, int, str], bool]) -> Iterator[Vector]:
    """The vectors of all layouts of this kio that have none yet."""
    specs = specs_by_name()
    for name, version, entity in kio_entities():
        rng = random.Random(f"{name} {version}")  # noqa: S311 - test data
        instances = [make(entity, rng) for _ in range(VECTORS_PER_LAYOUT)]
        spec = fitting(specs[name], version, instances)
        layout = (specs[name][0].name, version, " ".join(spec.releases))
        if is_known(*layout):
            continue
        for instance in instances:
            raw = base64.b64encode(write(entity, instance)).decode("ascii")
            yield Vector(kio_writer(), *layout, raw, values_of(instance, spec.fields, version))


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
                make_one(element, kafka_type, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))
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
        return rng.choice((low, high, *EVERYDAY))
    if kafka_type == "error_code":
        return rng.choice(list(importlib.import_module("kio.schema.errors").ErrorCode))
    if kafka_type == "bool":
        return rng.random() < 0.5
    if kafka_type == "string":
        return rng.choice(LETTERS) * rng.choice((0, 1, 3, 70))
    if kafka_type in ("bytes", "records"):
        return bytes([rng.randrange(256)]) * rng.choice((0, 1, 4, 200))
    if kafka_type == "uuid":
        return uuid.UUID(int=rng.choice((1, 2, 1 << 127, (1 << 128) - 1)))
    if kafka_type == "float64":
        return rng.randint(-1000, 1000) / 8
    if kafka_type == "timedelta_i32":
        return datetime.timedelta(milliseconds=rng.choice(TIMES))
    if kafka_type == "timedelta_i64":
        return datetime.timedelta(milliseconds=rng.choice((*TIMES, 1 << 40)))
    if kafka_type == "datetime_i64":
        return datetime.datetime.fromtimestamp(rng.choice((10**9, 2 * 10**9)), datetime.UTC)
    raise ValueError(f"kio's type {kafka_type} is not known here")


def write(entity: Any, instance: Any) -> bytes:
    """kio's bytes of an instance."""
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(entity)(buffer, instance)
    return buffer.getvalue()


def fitting(specs: list[MessageSpec], version: int, instances: list[Any]) -> MessageSpec:
    """The spec or variant that has as many fields as the instances, at every level."""
    for spec in specs:
        if version in spec.versions and all(
            is_alike(instance, spec.fields, version) for instance in instances
        ):
            return spec
    raise ValueError(f"no layout of {specs[0].name} v{version} is like kio's")


def is_alike(instance: Any, fields: tuple[FieldSpec, ...], version: int) -> bool:
    """Return whether the instance has as many fields as the layout, at every level."""
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
    """Values that kdissect should read; tagged fields at their default are not on the wire."""
    values = {}
    tagged = []
    present = [field for field in fields if version in field.versions]
    for kio_field, field in zip(dataclasses.fields(instance), present, strict=True):
        value = getattr(instance, kio_field.name)
        plain = plain_value(value, field, version)
        if version not in field.tagged:
            values[snake_case(field.name)] = plain
        elif value != default_of(kio_field):
            tagged.append((field.tag, snake_case(field.name), plain))
    return values | {name: plain for _, name, plain in sorted(tagged, key=lambda item: item[0])}


def default_of(field: Any) -> Any:
    """The value of a tagged field that kio leaves out."""
    from kio.serial._implicit_defaults import get_tagged_field_default

    return get_tagged_field_default(field)


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
