"""Removes credentials from decoded messages; the only place that does.

schema/secrets.tsv lists every field that is or contains a credential, and its kind:

    credential   always: SASL tokens, SCRAM salts and keys, HMACs of delegation tokens
    config       the value of a config, unless `is_secret_config` excludes it
    message      another message in bytes, whose own fields count; redacted while it is bytes
    records      payload; redacted while it is bytes when it is of Kafka's metadata log

Messages that are not listed cost nothing. For listed messages, errors contain no bytes, and unknown
tags have no content.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import DecodeError, UnknownApi
from kdissect.protocol.apis import find_api
from kdissect.protocol.notation import read_index
from kdissect.protocol.specs import snake_case

LAYOUT: Final = "layout"
CREDENTIAL: Final = "credential"
CONFIG: Final = "config"
MESSAGE: Final = "message"
RECORDS: Final = "records"
KINDS: Final = (CREDENTIAL, CONFIG, MESSAGE, RECORDS)
# The metadata log by name and by its constant id.
SECRET_TOPICS: Final = ("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ")
UNKNOWN_TAGS: Final = "unknown_tags"
PASSWORD: Final = "password"  # noqa: S105  # the name of a type
# Configs of one listener, and those of SASL of one mechanism there, end with Kafka's names. A
# listener name with a dot is not recognized.
OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(?P<name>.+)")
OF_MECHANISM: Final = re.compile(r"[a-z0-9_-]+\.(?P<name>sasl\..+|connections\.max\.reauth\.ms)")
# Of resources of this type, KIP-412.
BROKER_LOGGER: Final = 8
LOG_LEVELS: Final = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


class Secrets(NamedTuple):
    """Listed fields of a struct by name: their kinds, and those of nested structs."""

    kinds: dict[str, str]
    structs: dict[str, "Secrets"]


def redacted(
    message: str, side: str, body: dict[str, Any], keeps_records: bool = False
) -> dict[str, Any]:
    """Return a decoded message with ``<redacted, 32 bytes>`` in place of every credential.

    `side` is request, response or layout. With `keeps_records` records stay bytes for any topic,
    for the caller to decode, and `body` may be changed in place.
    """
    secrets = listed().get((message, side))
    if secrets is None:
        return body
    if keeps_records and (message, side) in only_records():
        _mark_tags(secrets, body)
        return body
    safe: dict[str, Any] = _redacted(secrets, body, False, keeps_records)
    return safe


class Withholding:
    """Removes the bytes from a DecodeError raised inside its `with`, see `withholding`."""

    def __init__(self, message: str | int, side: str) -> None:
        self._message = message
        self._side = side

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _place: object) -> None:
        if isinstance(error, DecodeError) and has_secrets(self._message, self._side):
            error.withhold()


def withholding(message: str | int, side: str) -> Withholding:
    """Remove the bytes from a DecodeError if they may include credentials or payload."""
    return Withholding(message, side)


def has_secrets(message: str | int, side: str) -> bool:
    """Return whether a message may contain credentials or payload; those of an unknown API may.

    `message` is the key or name of an API, or with side layout another message's name.
    """
    if side == LAYOUT:
        return (message, side) in listed()
    try:
        return (find_api(message).name, side) in listed()
    except UnknownApi:
        return True


def is_secret_config(name: object, value: object = None, is_logger: bool = False) -> bool:
    """Return whether the value of a config may be a credential.

    It is not if Kafka's own ConfigDefs contain the name, in any release, and never as a password
    (schema/configs.tsv). That holds behind ``listener.name.LISTENER.`` and a mechanism too. With
    `is_logger`, names are those of classes, and a level is not a credential. All others may be.

    >>> is_secret_config("sasl.jaas.config"), is_secret_config("basic.auth.user.info")
    (True, True)
    >>> is_secret_config("listener.name.a.gssapi.connections.max.reauth.ms")
    False
    """
    if not isinstance(name, str):
        return True
    if is_logger:
        return value not in LOG_LEVELS
    if name in public_configs():
        return False
    return not any(inner in public_configs() for inner in _own_names(name))


@cache
def public_configs() -> frozenset[str]:
    """Names of the configs that Kafka defines and that are not passwords."""
    return frozenset(name for name, type_, *_ in read_index("configs") if type_ != PASSWORD)


@cache
def listed() -> dict[tuple[str, str], Secrets]:
    """Fields of schema/secrets.tsv by message and side, by their names in decoded messages."""
    found: dict[tuple[str, str], Secrets] = {}
    for message, side, path, kind in read_index("secrets"):
        *structs, field = (snake_case(step) for step in path.split("."))
        at = found.setdefault((message, side), Secrets({}, {}))
        for struct in structs:
            at = at.structs.setdefault(struct, Secrets({}, {}))
        at.kinds[field] = kind
    return found


@cache
def only_records() -> frozenset[tuple[str, str]]:
    """Messages and sides whose listed fields are all records."""
    return frozenset(place for place, secrets in listed().items() if _kinds(secrets) == {RECORDS})


def _kinds(secrets: Secrets) -> set[str]:
    """Kinds of all listed fields of a struct and inside it."""
    return {*secrets.kinds.values()}.union(*map(_kinds, secrets.structs.values()))


def _own_names(name: str) -> Iterator[str]:
    """Config names behind a listener, and behind a listener and a mechanism."""
    of_listener = OF_LISTENER.fullmatch(name)
    if of_listener:
        yield of_listener["name"]
        of_mechanism = OF_MECHANISM.fullmatch(of_listener["name"])
        if of_mechanism:
            yield of_mechanism["name"]


def _redacted(
    secrets: Secrets, value: Any, is_secret: bool, keeps_records: bool, is_logger: bool = False
) -> Any:
    """Redact `value`, a struct or array of them; `is_secret`: its configs or records are secret.

    `is_logger`: its configs are levels of loggers.
    """
    if isinstance(value, list):
        return [_redacted(secrets, item, is_secret, keeps_records, is_logger) for item in value]
    if not isinstance(value, dict):
        return value
    is_logger = is_logger or value.get("resource_type") == BROKER_LOGGER
    is_secret = is_secret or is_secret_struct(secrets, value, is_logger)
    safe = dict(value)
    for name, kind in secrets.kinds.items():
        if name in safe and is_hidden(kind, safe[name], is_secret, keeps_records):
            safe[name] = _mark(safe[name])
    for name, inner in secrets.structs.items():
        if name in safe:
            safe[name] = _redacted(inner, safe[name], is_secret, keeps_records, is_logger)
    if UNKNOWN_TAGS in safe:
        safe[UNKNOWN_TAGS] = _marked_tags(safe[UNKNOWN_TAGS])
    return safe


def _mark_tags(secrets: Secrets, value: Any) -> None:
    """Remove the contents of unknown tags from `value`, in place, where `_redacted` would."""
    if isinstance(value, list):
        for item in value:
            _mark_tags(secrets, item)
    elif isinstance(value, dict):
        for name, inner in secrets.structs.items():
            if name in value:
                _mark_tags(inner, value[name])
        if UNKNOWN_TAGS in value:
            value[UNKNOWN_TAGS] = _marked_tags(value[UNKNOWN_TAGS])


def _marked_tags(tags: Any) -> dict[Any, Any]:
    return {tag: _mark(content) for tag, content in tags.items()}


def is_hidden(kind: str, value: Any, is_secret: bool, keeps_records: bool) -> bool:
    """Return whether a field of this kind is removed; `is_secret` is of its struct."""
    if kind == MESSAGE:
        return isinstance(value, bytes)
    if kind == RECORDS:
        return is_secret and not keeps_records
    return kind == CREDENTIAL or is_secret


def is_secret_struct(secrets: Secrets, struct: dict[str, Any], is_logger: bool) -> bool:
    """Return whether a config entry, also of the metadata log, may have a secret value."""
    if CONFIG in secrets.kinds.values():
        return bool(struct.get("is_sensitive")) or is_secret_config(
            struct.get("name"), struct.get("value"), is_logger
        )
    names = (struct.get("topic"), struct.get("name"), struct.get("topic_id"))
    return any(name in SECRET_TOPICS for name in names)


def _mark(value: Any) -> Any:
    if isinstance(value, bytes | str):
        data = value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value
        size: i64 = len(data)
        return f"<redacted, {size} bytes>"
    return value
