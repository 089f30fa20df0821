"""Vectors written by kafka-python (3.0), from the values of Kafka's vectors.

Its encoder is its own; the layouts are those of Kafka's definitions. It cannot write unknown tags,
so values with such are left out.
"""

import base64
import importlib
import importlib.metadata
import pkgutil
import uuid
from collections.abc import Iterator
from typing import Any

from tools.make_vectors.vectors_file import Vector, read_vectors

VECTORS_PER_LAYOUT = 4


def writer() -> str:
    """The writer of the vectors made here."""
    return f"kafka-python {importlib.metadata.version('kafka-python')}"


def kafka_python_vectors() -> Iterator[Vector]:
    """Vectors of every layout for which kafka-python writes the same values."""
    classes = message_classes()
    counts: dict[tuple[str, int, str], int] = {}
    for vector in read_vectors():
        is_ours = vector.writer.startswith("kafka ") and not vector.releases
        message = classes.get(vector.name)
        if not is_ours or message is None or vector.version > message.max_version:
            continue
        if counts.get(vector.layout, 0) == VECTORS_PER_LAYOUT or has_unknown_tags(vector.values):
            continue
        try:
            data = filled(message, message._struct.fields, vector.values, vector.version)
            encoded = bytes(data.encode(version=vector.version))
        except Exception as error:  # as configured, whatever it is
            print(f"{vector.name} v{vector.version} cannot be written: {error!r}")
            continue
        counts[vector.layout] = counts.get(vector.layout, 0) + 1
        raw = base64.b64encode(encoded).decode("ascii")
        yield vector._replace(writer=writer(), raw=raw)


def message_classes() -> dict[str, Any]:
    """The classes of requests and responses by name."""
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    return {
        each.__name__: each for each in ApiMessage.__subclasses__() if "_v" not in each.__name__
    }


def has_unknown_tags(value: Any) -> bool:
    if isinstance(value, dict):
        return "unknown_tags" in value or any(has_unknown_tags(item) for item in value.values())
    return isinstance(value, list) and any(has_unknown_tags(item) for item in value)


def filled(container: Any, fields: dict[str, Any], values: dict[str, Any], version: int) -> Any:
    """An instance of a class with its values; names of fields are spelt alike but for case."""
    names = {name.replace("_", ""): name for name in fields}
    arguments = {}
    for name, value in values.items():
        own = names[name.replace("_", "")]
        arguments[own] = converted(fields[own], value, version)
    return container(version=version, **arguments)


def converted(field: Any, value: Any, version: int) -> Any:
    """A value of the vectors as kafka-python takes it."""
    if isinstance(value, list):
        if field.is_struct_array():
            return [filled(field.data_class, field.fields, item, version) for item in value]
        return [converted_one(item, field.type_str) for item in value]
    if isinstance(value, dict):
        return filled(field.data_class, field.fields, value, version)
    return converted_one(value, field.type_str)


def converted_one(value: Any, type_text: str) -> Any:
    if isinstance(value, str) and "uuid" in type_text.lower():
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    is_bytes = isinstance(value, str) and any(
        word in type_text.lower() for word in ("bytes", "records")
    )
    return bytes.fromhex(value.removeprefix("hex:")) if is_bytes else value
